import Foundation
import Testing

/// The files in `cron/` are installed by hand on other machines, where a mistake means a sweep
/// that silently never runs.
@Suite("Schedules")
struct ScheduleTests {
    static let folder = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../../../cron").standardizedFileURL

    static func text(_ name: String) throws -> String {
        try String(contentsOf: folder.appending(path: name), encoding: .utf8)
    }

    /// Lines that are not comments or empty.
    static func lines(_ name: String) throws -> [String] {
        try text(name).split(separator: "\n").map(String.init).filter {
            !$0.hasPrefix("#") && !$0.allSatisfy(\.isWhitespace)
        }
    }

    private static func isJob(_ line: String) -> Bool {
        line.first.map { $0.isNumber || $0 == "*" } == true
    }

    @Test("the crontab has lines for purging and sending too, as comments")
    func sendingLine() throws {
        let comments = try Self.text("pushsweep.crontab").split(separator: "\n").filter {
            $0.hasPrefix("#") && Self.isJob(String($0.dropFirst()))
        }
        #expect(
            comments == [
                "#43 4 * * * pushsweep pushsweep purge", "#*/5 * * * * pushsweep pushsweep send",
            ])
    }

    @Test("the crontab is variables and one hourly line with a user, as /etc/cron.d wants it")
    func crontab() throws {
        // cron ignores a last line without a line break.
        #expect(try Self.text("pushsweep.crontab").hasSuffix("\n"))
        let lines = try Self.lines("pushsweep.crontab")
        let jobs = lines.filter(Self.isJob)
        #expect(jobs.count == 1)
        let fields = (jobs.first ?? "").split(separator: " ").map(String.init)
        try #require(fields.count >= 7)
        #expect((1...59).contains(Int(fields[0]) ?? 0), "a full hour is everybody's minute")
        #expect(fields[1...4] == ["*", "*", "*", "*"])
        #expect(fields[5] == "pushsweep")
        // The package brings a timer too, so the job runs only where systemd does not; and this file
        // stays when the package is removed.
        #expect(
            fields[6...].joined(separator: " ")
                == "test -d /run/systemd/system || ! command -v pushsweep >/dev/null || pushsweep sweep"
        )
        // cron ends a command at an unescaped % and feeds the rest to it.
        #expect(!jobs.joined().contains("%"))
        let variables = lines.filter { !jobs.contains($0) }.map {
            $0.split(separator: "=", maxSplits: 1).map(String.init)
        }
        #expect(variables.allSatisfy { $0.count == 2 })
        let values = Dictionary(variables.map { ($0[0], $0[1]) }, uniquingKeysWith: { $1 })
        #expect(values["SWIFT_BACKTRACE"] == "enable=no")
        #expect(values["PATH"]?.contains("/usr/local/bin") == true)
        #expect(values["MAILTO"]?.isEmpty == false)
    }

    static let units = [
        "pushsweep-send.service", "pushsweep-sweep.service", "pushsweep-sweep.timer",
    ]

    @Test("units consist of sections, keys known to systemd and comments", arguments: units)
    func unitSyntax(name: String) throws {
        var section: String?
        for line in try Self.lines(name) {
            if line.hasPrefix("["), line.hasSuffix("]") {
                section = String(line.dropFirst().dropLast())
                #expect(["Unit", "Service", "Timer", "Install"].contains(section))
                continue
            }
            #expect(section != nil)
            let key = line.prefix { $0 != "=" }
            #expect(line.contains("="), "\(line)")
            #expect(key.allSatisfy { $0.isLetter && $0.isASCII } && !key.isEmpty, "\(line)")
        }
    }

    /// Lines that decide what a unit does: the sender follows the queue, stops gently and restarts except
    /// after mistakes; the service runs one contained sweep; the timer fires each hour at the host's
    /// own minute, and after a missed hour.
    static let decisive = [
        (
            "pushsweep-send.service",
            [
                "Type=exec", "ExecStart=/usr/local/bin/pushsweep send --follow", "User=pushsweep",
                "Restart=on-failure", "StartLimitIntervalSec=0", "KillSignal=SIGTERM",
                "TimeoutStopSec=10", "SuccessExitStatus=75", "RestartForceExitStatus=75",
                "RestartPreventExitStatus=64 77 78", "WantedBy=multi-user.target",
            ]
        ),
        (
            "pushsweep-sweep.service",
            [
                "Type=oneshot", "ExecStart=/usr/local/bin/pushsweep sweep", "User=pushsweep",
                "Environment=SWIFT_BACKTRACE=enable=no", "LimitCORE=0",
                "StateDirectory=pushsweep", "StateDirectoryMode=0700", "ProtectSystem=strict",
                "NoNewPrivileges=yes",
            ]
        ),
        (
            "pushsweep-sweep.timer",
            [
                "OnCalendar=hourly", "Persistent=true", "FixedRandomDelay=yes",
                "WantedBy=timers.target",
            ]
        ),
    ]

    @Test("units have the lines that decide what they do", arguments: decisive)
    func lines(_ unit: String, _ wanted: [String]) throws {
        let lines = try Self.lines(unit)
        for line in wanted { #expect(lines.contains(line), "\(line)") }
    }

    @Test("the sender is contained as the sweep is")
    func containment() throws {
        func contained(_ name: String) throws -> [String] {
            let lines = try Self.lines(name)
            let start = try #require(lines.firstIndex(of: "Environment=SWIFT_BACKTRACE=enable=no"))
            return Array(lines[start...]).filter { !$0.hasPrefix("[") && !$0.hasPrefix("Wanted") }
        }
        #expect(try contained("pushsweep-send.service") == contained("pushsweep-sweep.service"))
    }

    @Test("the service repeats only after passing failures, and the timer at the host's own minute")
    func repetition() throws {
        let lines = try Self.lines("pushsweep-sweep.service")
        #expect(!lines.contains { $0.hasPrefix("SuccessExitStatus=") })
        let prevented = lines.first { $0.hasPrefix("RestartPreventExitStatus=") } ?? ""
        let codes = prevented.split(whereSeparator: { $0 == "=" || $0 == " " }).compactMap {
            Int($0)
        }
        #expect(codes == [3, 4, 64, 65, 70, 73, 74, 76, 77, 78])
        let timer = try Self.lines("pushsweep-sweep.timer")
        #expect(timer.contains { $0.hasPrefix("RandomizedDelaySec=") })
    }

    @Test("the CronJob tries again after the same failures as the service, never as root")
    func cronJob() throws {
        let job = try Self.text("kubernetes-cronjob.yaml")
        let prevented = try Self.lines("pushsweep-sweep.service").compactMap {
            $0.wholeMatch(of: /RestartPreventExitStatus=([\d ]+\d).*/)?.output.1
        }
        let codes = try #require(prevented.first).split(separator: " ")
        #expect(job.contains("values: [\(codes.joined(separator: ", "))]\n"))
        for line in ["runAsNonRoot: true", "concurrencyPolicy: Forbid", "restartPolicy: Never"] {
            #expect(job.contains(line), "\(line)")
        }
        let image = try Self.text("../scripts/packaging/Dockerfile")
        #expect(image.contains("\nUSER 10001:10001\n") && job.contains("runAsUser: 10001\n"))
    }

    static let analyzer = "/usr/bin/systemd-analyze"

    @Test(
        "systemd reports nothing about the units",
        .enabled(if: FileManager.default.isExecutableFile(atPath: analyzer)))
    func systemdVerifies() throws {
        // The command is replaced by one that exists on this machine.
        let place = FileManager.default.temporaryDirectory
            .appending(path: "pushsweep-units-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: place) }
        for name in Self.units {
            let unit = try Self.text(name).replacing("/usr/local/bin/pushsweep", with: "/bin/true")
            try unit.write(to: place.appending(path: name), atomically: true, encoding: .utf8)
        }
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(filePath: Self.analyzer)
        process.arguments = ["verify"] + Self.units.map { place.appending(path: $0).path }
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let said = String(
            decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        // It also reports mistakes in the machine's own units.
        #expect(!said.contains("pushsweep"), "\(said)")
    }
}
