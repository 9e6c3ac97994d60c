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
        #expect(failure.description.contains("chmod go-w '\(path)'"), "\(failure)")
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
        #expect(failure?.description.contains("chmod go-w '\(fixture.folder)'") ?? !isRefused)
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
        #expect(failure.description.contains("chown root '\(path)'"), "\(failure)")
    }

    @Test("a command whose program others may change is refused: the line's first word")
    func hook() throws {
        let hook = try fixture.write("#!/bin/sh\n", to: "hook", mode: 0o777)
        for command in [hook, "\(hook) --loud; true", "\(hook)&"] {
            let failure = #expect(throws: SettingsFailure.self) {
                try fixture.load("hooks: {after-run: '\(command)'}")
            }
            #expect(failure?.kind == .permission)
            #expect(failure?.description.contains("chmod go-w '\(hook)'") == true)
        }
        for command in ["true", "/nonexistent/hook", "/bin/sh \(hook)", "echo > \(hook)"] {
            _ = try fixture.load("hooks: {after-run: '\(command)'}")
        }
        try fixture.write("#!/bin/sh\n", to: "hook", mode: 0o755)
        _ = try fixture.load("hooks: {after-run: '\(hook)'}")
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
