import EvidenceJournal
import Findings
import SecureTransport
import Testing
import TokenHygiene

@testable import Operations

@Suite("The exit code of a failure")
struct FailureExitTests {
    @Test(
        "each failure of the database ends a run with the code of what is to be done",
        arguments: [
            (.unreachable, .unreachable, .unreachable),
            (.untrusted, .configuration, .configuration),
            (.busy, .pending, .unreachable), (.readOnly, .pending, .unreachable),
            (.commitUnknown, .pending, .unreachable), (.permission, .permission, .permission),
            (.configuration, .configuration, .configuration), (.evidence, .journal, .journal),
            (.stopped, .pending, .unreachable), (.inconsistent, .invariant, .invariant),
        ] as [(StoreFailure.Code, Operations.ExitStatus, Operations.ExitStatus)])
    func store(
        code: StoreFailure.Code, exit: Operations.ExitStatus, ofReading: Operations.ExitStatus
    ) {
        let failure = StoreFailure(code, "doing", hint: "; cure")
        #expect(failure.exit == exit && failure.exitOfReading == ofReading)
        let wrapped = RunFailure.wrapping(failure.with([failure]), at: .store)
        #expect(wrapped.exit == exit && wrapped.stage == .store)
        #expect(wrapped.sentences == ["doing; cure", "doing; cure"])
        #expect(RunFailure.ofReading(failure).exit == ofReading)
        let limited = StoreFailure(code, "doing", reason: .maxLag)
        #expect(RunFailure.ofReading(limited).exit == exit)
        #expect(RunFailure.wrapping(limited, at: .apply).problem.why == "max-lag")
    }

    @Test(
        "each failure of the journal ends a run with its code, and what cannot be decoded at its stage",
        arguments: [
            (.locked, .locked, .state), (.cannotCreate, .cannotCreate, .state),
            (.permission, .permission, .state), (.inputOutput, .journal, .state),
            (.damaged, .journal, .state), (.undecodable, .journal, .decode),
            (.otherBuild, .configuration, .state),
            (.unknownList, .usage, .state),
        ] as [(JournalFailure.Code, Operations.ExitStatus, RunFailure.Stage)])
    func journal(code: JournalFailure.Code, exit: Operations.ExitStatus, stage: RunFailure.Stage) {
        let failure = RunFailure.wrapping(JournalFailure(code, "doing"), at: .apply)
        #expect(failure.exit == exit && failure.stage == stage && "\(failure)" == "doing")
    }

    @Test(
        "each failure of a connection leads to the settings that may be wrong",
        arguments: [
            (.nameNotFound, .unreachable, "k.provider.host", "k.feedback.host"),
            (.connectionRefused, .unreachable, "k.provider.host, k.provider.port", nil),
            (.unreachable, .unreachable, "k.provider.host, k.provider.port", nil),
            (.timedOut, .unreachable, "k.provider.host, k.provider.port", nil),
            (.closedEarly, .unreachable, "k.provider.host, k.provider.port", nil),
            (.reset, .unreachable, "", nil), (.io, .unreachable, "", nil),
            (.interrupted, .unreachable, "", nil), (.certificateExpired, .unreachable, "", nil),
            (.certificateNotYetValid, .unreachable, "", nil),
            (.certificateUntrusted, .configuration, "k.provider.ca", "k.feedback.ca"),
            (.trustUnusable, .configuration, "k.provider.ca", "k.feedback.ca"),
            (.hostNameMismatch, .configuration, "k.provider.host", "k.feedback.host-name"),
            (.clientCertificateRefused, .configuration, "k.certificate", "k.certificate"),
            (.credentialsUnusable, .configuration, "k.certificate", "k.certificate"),
            (.wrongProtocol, .configuration, "k.provider.host, k.provider.port", nil),
            (.notTLS, .protocolBroken, "k.provider.host, k.provider.port", nil),
            (.protocolVersion, .protocolBroken, "", nil),
            (.protocolError, .protocolBroken, "", nil),
        ] as [(TransportFailure.Code, Operations.ExitStatus, String, String?)])
    func connections(
        code: TransportFailure.Code, exit: Operations.ExitStatus, provider: String,
        feedback: String?
    ) {
        let chat = Partition(app: "chat", environment: "sandbox")
        func words(_ gateway: GatewaySetting) -> String {
            let failure = RunFailure(
                TransportFailure(code, "connecting"), of: chat, gateway, at: .send)
            #expect(failure.exit == exit && failure.stage == .send)
            return "\(failure)".replacing("apps[chat/sandbox]", with: "k")
        }
        func told(_ keys: String) -> String {
            "chat/sandbox: connecting" + (keys.isEmpty ? "" : " (\(keys))")
        }
        #expect(words(.provider) == told(provider))
        if let feedback { #expect(words(.feedback) == told(feedback)) }
    }

    @Test("of two codes the more urgent one counts, in either order")
    func urgency() {
        #expect(Set(Operations.ExitStatus.byUrgency) == Set(Operations.ExitStatus.allCases))
        for (place, status) in Operations.ExitStatus.byUrgency.enumerated() {
            for other in Operations.ExitStatus.byUrgency[place...] {
                #expect(Operations.ExitStatus.worse(status, other) == status)
                #expect(Operations.ExitStatus.worse(other, status) == status)
            }
        }
    }

    @Test("a failure keeps its stage, its sentences and what it lists, and takes names of options")
    func sentences() {
        let failure = RunFailure(
            .usage, .settings, "store.tls.ca and store.tls are wrong", listing: ["  one", "  two"],
            reason: .stopFile)
        let named = failure.naming(["store.tls": "--tls", "store.tls.ca": "--ca"])
        #expect(named.description == "--ca and --tls are wrong\n  one\n  two")
        #expect(named.exit == .usage && named.stage == .settings && named.reason == .stopFile)
        #expect(failure.after(nil).counts == ClosingCounts())
        let counts = ClosingCounts(pending: 1, applied: 2, held: 3)
        #expect(failure.after(counts).counts == counts)
        let chat = Partition(app: "chat", environment: "sandbox")
        #expect("\(failure.naming(chat))".hasPrefix("chat/sandbox: store.tls.ca and"))
        #expect(
            failure.problem
                == RunProblem(
                    stage: "settings", message: failure.description, why: "stop-file"))
    }
}
