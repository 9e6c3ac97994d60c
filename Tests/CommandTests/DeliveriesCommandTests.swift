import APNsProtocol
import Foundation
import TestSupport
import Testing

@Suite("The command deliveries")
struct DeliveriesCommandTests {
    @Test("lists in each format, a token of standard input, and what is hostile controls nothing")
    func formats() throws {
        let stage = try SendStage(rows: 0)
        let evil = "=cmd|'/c'!A1\u{1B}]52;c;AAAA\u{07}\ncode=0\u{202E}"
        try stage.database.register(.numbered(1), at: 1, user: evil)
        try stage.database.register(.numbered(2), at: 1, user: "user 2")
        try stage.queue(1...2)
        try stage.database.execute(
            "UPDATE push_queue SET queued_at = '2023-11-14 22:13:25', state = 'gone', attempts = 2, "
                + "answered_at = '2023-11-14 22:13:30', reason = '@SUM(1)' || char(27, 10) || '=2' "
                + "WHERE id = 1")
        try stage.database.execute("UPDATE push_queue SET queued_at = '2023-11-14 22:13:26'")
        let text = try stage.run("deliveries").ends(
            0,
            "2  pending  chat/production  a5a5a5a5…  user user 2  0 attempts  "
                + "queued 2023-11-14T22:13:26.000Z\n")
        let csv = try stage.run("deliveries", "--format", "csv").ends(
            0, "id,app,environment,users,token,state,reason,attempts,queued,notBefore,answered\n",
            "2,chat,production,\"user 2\",a5a5a5a5…,pending,,0,2023-11-14T22:13:26.000Z,,\n",
            ",'@SUM(1)", "'=cmd|")
        for result in [text, csv, try stage.json("deliveries").ends(0)] {
            #expect(
                result.printed.unicodeScalars.allSatisfy {
                    $0 == "\n" || $0.value >= 0x20 && $0.value != 0x7F && $0.value != 0x202E
                })
            #expect(!result.output.split(separator: "\n").contains { $0.hasPrefix("code=") })
        }
        let hex = DeviceToken.numbered(2).hex
        let file = try stage.folder.write("token", "\n <\(hex.uppercased())> \n")
        for words in [["--token", "-"], ["--token-file", "-"], ["--token-file", file]] {
            let result = try stage.run(
                ["deliveries", "--whole-tokens"] + words,
                under: ["/bin/sh", "-c", "printf '%s\\n' \(hex) | \"$@\"", "sh"]
            ).ends(0, hex)
            #expect(result.output.split(separator: "\n").count == 1)
        }
        try stage.run("deliveries", "--limit", "1").ends(0, "more than 1 match")
        try stage.database.execute("DROP TABLE push_queue")
        let missing = try stage.json("deliveries").ends(78, "pushsweep schema apply")
        #expect(missing.output == "")
    }
}
