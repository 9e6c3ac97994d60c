import APNsProtocol
import Encodings
import Foundation
import TestSupport
import Testing

/// A PostgreSQL server of a test, and the folder of the recipe. The server runs as its own user, as it has to.
private final class MirrorStage {
    static let programs =
        (try? FileManager.default.contentsOfDirectory(atPath: "/usr/lib/postgresql"))?
        .sorted().last.map { "/usr/lib/postgresql/\($0)/bin" }

    let folder: TemporaryFolder
    private let data: String

    init() throws {
        folder = try TemporaryFolder()
        data = "/tmp/pushsweep-pg-\(UUID().uuidString.prefix(8).lowercased())"
        let programs = Self.programs ?? ""
        try shell(
            """
            mkdir -m 0700 \(data) && { [ "$(id -u)" != 0 ] || chown postgres \(data); }
            as() { if [ "$(id -u)" = 0 ]; then setpriv --reuid postgres --regid postgres --clear-groups "$@"; else "$@"; fi; }
            cd \(data)
            as \(programs)/initdb -D \(data)/db -A trust -U postgres >/dev/null 2>&1
            # The server must not keep open by what the test sees the end of this shell.
            for file in /proc/$$/fd/*; do number=${file##*/}; [ "$number" -lt 3 ] || eval "exec $number>&-"; done
            as \(programs)/pg_ctl -D \(data)/db -o "-k \(data) -c listen_addresses='' -c fsync=off" \
              -l \(data)/log -w start >/dev/null 2>&1 </dev/null
            """)
        for block in try DocumentBlock.all(of: "docs/recipes/mirror.md")
        where block.name == "mirror.yaml" {
            try folder.write("mirror.yaml", block.text)
        }
    }

    deinit {
        _ = try? shell(
            """
            cd \(data)
            as() { if [ "$(id -u)" = 0 ]; then setpriv --reuid postgres --regid postgres --clear-groups "$@"; else "$@"; fi; }
            as \(Self.programs ?? "")/pg_ctl -D \(data)/db -m immediate stop >/dev/null 2>&1
            rm -rf \(data)
            """)
    }

    @discardableResult
    func shell(_ script: String) throws -> ToolResult {
        let examples = DocumentBlock.path("docs/examples").path
        return try RunningTool(
            program: URL(fileURLWithPath: "/bin/bash"),
            [
                "-ec",
                "cd \(folder.path)\n"
                    + script.replacing("/usr/share/doc/pushsweep/docs/examples", with: examples),
            ],
            environment: [
                "PATH": "\(RunningTool.folderOfTests.path):\(Self.programs ?? ""):/usr/bin:/bin",
                "PGHOST": data, "PGUSER": "postgres", "PGDATABASE": "postgres", "HOME": folder.path,
            ]
        ).wait().ends(0, for: script)
    }

    /// Each row's number, and whether it has a mark.
    func marks() throws -> String {
        try shell(
            "psql -Atc \"SELECT string_agg(id || ':' || (invalidated_at IS NOT NULL)::int, ' ' ORDER BY id) FROM devices\""
        ).output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    func block(_ name: String) throws -> String {
        try #require(try DocumentBlock.all(of: "docs/recipes/mirror.md").first { $0.name == name })
            .text
    }
}

@Suite(
    "The recipe for PostgreSQL",
    .enabled(
        if: MirrorStage.programs != nil
            && FileManager.default.isExecutableFile(atPath: "/usr/bin/sqlite3")))
struct MirrorRecipeTests {
    private static let time = "1700000000123"

    @Test(
        "dead tokens are marked in PostgreSQL, devices that came back stay, and an undo goes back")
    func story() throws {
        let stage = try MirrorStage()
        let rows = (1...5).map { number in
            // The second registered after the 410; the fifth is no device of Apple's.
            "(\(number), 'u\(number)', '\(number == 5 ? "android" : "ios")', "
                + "'\(number == 1 ? DeviceToken.numbered(number).hex.uppercased() : DeviceToken.numbered(number).hex)', "
                + "'\(number == 2 ? "2026-01-01" : "2020-01-01")')"
        }
        try stage.shell(
            """
            psql -q -c "CREATE TABLE devices (id bigint PRIMARY KEY, user_id text, platform text, device_token text, \
            registered_at timestamptz NOT NULL)" -c "INSERT INTO devices VALUES \(rows.joined(separator: ", "))" \
            -c "CREATE TABLE answers (device_token text, status int, reason text, timestamp_ms bigint)" \
            -c "INSERT INTO answers SELECT lower(device_token), 410, 'Unregistered', \(Self.time) FROM devices WHERE id <= 3"
            """)
        try stage.shell(try stage.block("once"))
        // The third registers while the sweep is at work, after the copy was made.
        try stage.folder.write(
            "evidence",
            try stage.block("evidence")
                + "psql -q -c \"UPDATE devices SET registered_at = now() WHERE id = 3\"\n")
        try stage.shell("chmod +x evidence; sh /usr/share/doc/pushsweep/docs/examples/mirror.sh")
        #expect(try stage.marks() == "1:1 2:0 3:0 4:0 5:0")
        // The same again changes nothing.
        try stage.shell("sh /usr/share/doc/pushsweep/docs/examples/mirror.sh")
        #expect(try stage.marks() == "1:1 2:0 3:0 4:0 5:0")
        try stage.shell(
            """
            run=$(pushsweep undo --list --config mirror.yaml | tail -n 1 | cut -d ' ' -f 1)
            pushsweep undo "$run" --config mirror.yaml
            sh /usr/share/doc/pushsweep/docs/examples/mirror.sh
            """)
        #expect(try stage.marks() == "1:0 2:0 3:0 4:0 5:0")
        // An export that fails, and one of nothing, leave the copy as it is.
        for statement in ["ALTER TABLE devices RENAME user_id TO uid", "DELETE FROM devices"] {
            try stage.shell(
                """
                psql -q -c "\(statement)"
                ! sh /usr/share/doc/pushsweep/docs/examples/mirror.sh 2>/dev/null
                [ "$(sqlite3 mirror.sqlite 'SELECT COUNT(*) FROM devices')" = 4 ]
                psql -q -c "ALTER TABLE devices RENAME uid TO user_id" 2>/dev/null || true
                """)
        }
    }
}
