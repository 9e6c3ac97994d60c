import Foundation
import Glibc
import Testing

@testable import Settings

/// Each file that decides what is done, changed by a mode of the file or of its folder.
@Suite("Settings that others may change")
struct SettingsRightsTests {
    let fixture: SettingsFixture

    init() throws { fixture = try SettingsFixture() }

    private func refusal(of path: String) -> SettingsFailure? {
        do throws(SettingsFailure) {
            _ = try Settings.load(
                configFile: path, environment: [:], surroundings: fixture.surroundings)
            return nil
        } catch {
            return error
        }
    }

    @Test(
        "a settings file that group or others may write is refused with the cure",
        arguments: [0o666, 0o664, 0o660, 0o602, 0o620] as [mode_t])
    func file(_ mode: mode_t) throws {
        let path = try fixture.write("", to: "s.yaml", mode: mode)
        let failure = try #require(refusal(of: path))
        #expect(failure.kind == .permission)
        #expect(failure.description.contains("chmod go-w \(path)"), "\(failure)")
    }

    @Test(
        "a settings file that others may read only is taken",
        arguments: [0o600, 0o640, 0o644, 0o444] as [mode_t])
    func readable(_ mode: mode_t) throws {
        #expect(refusal(of: try fixture.write("", to: "s.yaml", mode: mode)) == nil)
    }

    @Test(
        "a folder that others may write is refused, unless it has the sticky bit",
        arguments: [(0o777, true), (0o775, true), (0o1777, false), (0o755, false)])
    func folder(_ mode: mode_t, _ isRefused: Bool) throws {
        let path = try fixture.write("", to: "s.yaml")
        #expect(chmod(fixture.folder, mode) == 0)
        let failure = refusal(of: path)
        #expect((failure?.kind == .permission) == isRefused, "\(String(describing: failure))")
        #expect(failure?.description.contains("chmod go-w \(fixture.folder)") ?? !isRefused)
    }

    @Test("a link is refused where others may exchange it, whatever its target is")
    func link() throws {
        let target = try fixture.write("", to: "s.yaml")
        let other = try SettingsFixture()
        let link = other.folder + "/link.yaml"
        #expect(symlink(target, link) == 0)
        defer { unlink(link) }
        #expect(refusal(of: link) == nil)
        #expect(chmod(other.folder, 0o777) == 0)
        #expect(refusal(of: link)?.kind == .permission)
    }

    @Test(
        "a settings file of another user is refused",
        .enabled(if: geteuid() == 0, "giving files to others takes root"))
    func owner() throws {
        let path = try fixture.write("", to: "s.yaml")
        #expect(chown(path, 65_534, 65_534) == 0)
        let failure = try #require(refusal(of: path))
        #expect(failure.kind == .permission)
        #expect(failure.description.contains("chown root \(path)"), "\(failure)")
    }

    @Test("a command whose program others may change is refused: the line's first word")
    func hook() throws {
        let hook = try fixture.write("#!/bin/sh\n", to: "hook", mode: 0o777)
        for command in [hook, "\(hook) --loud; true", "\(hook)&", "  \(hook)"] {
            let failure = #expect(throws: SettingsFailure.self) {
                try fixture.load("hooks: {after-run: '\(command)'}")
            }
            #expect(failure?.kind == .permission)
            #expect(failure?.description.contains("chmod go-w \(hook)") == true)
        }
        for command in [
            "true", "/nonexistent/hook", "/bin/sh \(hook)", "echo > \(hook)",
            "[ $PUSHSWEEP_EXIT = 0 ] || true",
        ] {
            _ = try fixture.load("hooks: {after-run: '\(command)'}")
        }
        try fixture.write("#!/bin/sh\n", to: "hook", mode: 0o755)
        _ = try fixture.load("hooks: {after-run: '\(hook)'}")
    }

    /// Ways to a good program that others may turn elsewhere: each gives the name to use.
    private static let ways = ["two links", "a link beside", "a link of a stranger"]

    private func way(_ kind: String, to target: String, in folder: String) throws -> String {
        let shared = folder + "/shared"
        #expect(mkdir(shared, 0o755) == 0)
        #expect(symlink(target, shared + "/link") == 0)
        #expect(chmod(shared, kind == "a link of a stranger" ? 0o1777 : 0o777) == 0)
        switch kind {
        case "two links":
            #expect(symlink(shared + "/link", folder + "/first") == 0)
            return folder + "/first"
        case "a link beside":
            #expect(symlink("shared/../shared/link", folder + "/first") == 0)
            return folder + "/first"
        default:
            #expect(lchown(shared + "/link", 65_534, 65_534) == 0)
            return shared + "/link"
        }
    }

    @Test(
        "a settings file and a command are refused where a link on the way to it can be exchanged",
        .enabled(if: geteuid() == 0, "giving links to others takes root"), arguments: ways)
    func chain(_ kind: String) throws {
        let settings = try fixture.write("", to: "s.yaml")
        let other = try SettingsFixture()
        let failure = try #require(refusal(of: way(kind, to: settings, in: other.folder)))
        #expect(failure.kind == .permission)
        #expect(failure.description.contains("\(other.folder)/shared"), "\(failure)")
        let hook = try fixture.write("#!/bin/sh\n", to: "hook", mode: 0o755)
        let third = try SettingsFixture()
        let name = try way(kind, to: hook, in: third.folder)
        let refused = #expect(throws: SettingsFailure.self) {
            try fixture.load("hooks: {after-run: '\(name) x'}")
        }
        #expect(refused?.kind == .permission)
    }

    @Test("a link of this user in a folder with the sticky bit is taken")
    func ownLink() throws {
        let target = try fixture.write("", to: "s.yaml")
        let other = try SettingsFixture()
        #expect(symlink(target, other.folder + "/link.yaml") == 0)
        #expect(chmod(other.folder, 0o1777) == 0)
        #expect(refusal(of: other.folder + "/link.yaml") == nil)
    }

    @Test("a relative command is looked for in the folder of the run")
    func relativeHook() throws {
        let hook = try fixture.write("#!/bin/sh\n", to: "hook", mode: 0o777)
        let failure = #expect(throws: SettingsFailure.self) {
            try Settings.load(
                text: "hooks: {after-run: ./hook}", file: nil, environment: [:],
                surroundings: Settings.Surroundings(
                    homeDirectory: "/", isRoot: false, workingDirectory: fixture.folder))
        }
        #expect(failure?.description.contains("chmod go-w \(hook)") == true)
    }

    @Test(
        "a command whose first word the shell would change is refused: it hides the program",
        arguments: [
            #""/bin/true" x"#, #"\/bin/true"#, "/bin/tru*", "/bin/tru?", "$HOME/x", "/bin/{true,}",
            "A=1 /bin/true", "`x`", "~/x", "(/bin/true)", "{ /bin/true; }", "! /bin/true", "> x",
        ])
    func hidden(_ command: String) throws {
        let failure = #expect(throws: SettingsFailure.self) {
            try fixture.load("hooks: {after-run: '\(command)'}")
        }
        #expect(failure?.kind == .configuration)
        #expect(failure?.description.contains("must begin with the name or the path") == true)
    }

    @Test("an ignore file that others may write is refused")
    func ignoreFile() throws {
        let path = try fixture.write("", to: "ignore.yaml", mode: 0o666)
        let failure = #expect(throws: SettingsFailure.self) {
            try IgnoreList(file: path, rules: ["open-hold"])
        }
        #expect(failure?.kind == .permission)
    }
}
