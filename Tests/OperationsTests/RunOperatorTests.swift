import Operations
import Testing

@Suite("The operator of a run")
struct RunOperatorTests {
    @Test(
        "the record names the person, the account and the terminal or service",
        arguments: [
            (
                RunOperator(user: "root", person: "ada", terminal: "pts/3", service: nil),
                "ada as root on pts/3"
            ),
            (
                RunOperator(user: "ben", person: nil, terminal: "tty1", service: "systemd"),
                "ben on tty1"
            ),
            (
                RunOperator(user: "pushsweep", person: nil, terminal: nil, service: "systemd"),
                "pushsweep by systemd"
            ),
            (
                RunOperator(user: "pushsweep", person: nil, terminal: nil, service: nil),
                "pushsweep without a terminal"
            ),
        ])
    func words(_ who: RunOperator, _ words: String) { #expect(who.description == words) }

    @Test("a hostile name stays one line of at most 200 characters")
    func hostile() {
        let name = "a\n\u{1B}[2Jb" + String(repeating: "x", count: 400)
        let text = RunOperator(user: name, person: nil, terminal: nil, service: nil).description
        #expect(text.count == 200 && !text.contains("\n") && !text.contains("\u{1B}"))
    }

    @Test("a service manager is known by its variables")
    func services() {
        #expect(RunOperator.current(["INVOCATION_ID": "x"]).service == "systemd")
        #expect(RunOperator.current(["KUBERNETES_SERVICE_HOST": "x"]).service == "Kubernetes")
        #expect(RunOperator.current(["SUDO_USER": "ada"]).person == "ada")
        #expect(RunOperator.current([:]).service == nil)
    }
}
