import Testing

@testable import Database

@Suite("Rights as SHOW GRANTS lists them")
struct GrantedRightsTests {
    @Test(
        "a right counts for its table, its schema or all, and nothing that looks like it",
        arguments: [
            (["GRANT USAGE ON *.* TO `u`@`%`"], false),
            (["GRANT SELECT, TRIGGER ON *.* TO `u`@`%`"], true),
            (["GRANT ALL PRIVILEGES ON `push`.* TO `u`@`%` WITH GRANT OPTION"], true),
            (["GRANT TRIGGER ON `pu%`.* TO `u`@`%`"], true),
            (["GRANT TRIGGER ON `pus\\h`.* TO `u`@`%`"], true),
            (["GRANT TRIGGER ON `p\\_sh`.* TO `u`@`%`"], false),
            (["GRANT TRIGGER ON `pus_`.* TO `u`@`%`"], true),
            (["GRANT TRIGGER ON `other`.* TO `u`@`%`"], false),
            (["GRANT SELECT (`id`, `a ON b`), TRIGGER ON `push`.`devices` TO `u`@`%`"], true),
            (["GRANT SELECT (`TRIGGER`), UPDATE ON `push`.`devices` TO `u`@`%`"], false),
            (["GRANT TRIGGER ON `push`.`device_` TO `u`@`%`"], false),
            (["GRANT TRIGGER ON `push`.`dev``ices` TO `u`@`%`"], false),
            (["GRANT `TRIGGER`@`%` TO `u`@`%`"], false),
            (["GRANT PROXY ON ``@`` TO `root`@`localhost` WITH GRANT OPTION"], false),
            (
                [
                    "GRANT SELECT, TRIGGER ON *.* TO `u`@`%`",
                    "REVOKE TRIGGER ON `push`.* FROM `u`@`%`",
                ], false
            ),
            (
                [
                    "GRANT SELECT, TRIGGER ON *.* TO `u`@`%`",
                    "REVOKE TRIGGER ON `push`.* FROM `u`@`%`",
                    "GRANT TRIGGER ON `push`.`devices` TO `u`@`%`",
                ], true
            ),
            (
                ["GRANT TRIGGER ON `pu%`.* TO `u`@`%`", "GRANT SELECT ON `push`.* TO `u`@`%`"],
                false
            ),
            (
                ["GRANT SELECT ON `pu%`.* TO `u`@`%`", "GRANT TRIGGER ON `push`.* TO `u`@`%`"],
                true
            ),
        ])
    func include(_ lines: [String], _ isGranted: Bool) {
        let rights = GrantedRights(lines)
        #expect(rights.include("TRIGGER", on: "devices", of: "push") == isGranted, "\(lines)")
    }

    @Test(
        "an account sees every foreign key by a right on all tables, less the schemas where it was taken away",
        arguments: [
            (
                ["GRANT USAGE ON *.* TO `u`@`%`", "GRANT ALL PRIVILEGES ON `a`.* TO `u`@`%`"],
                false, []
            ),
            (["GRANT REFERENCES ON *.* TO `u`@`%`"], true, []),
            (
                [
                    "GRANT ALL PRIVILEGES ON *.* TO `u`@`%`",
                    "REVOKE REFERENCES ON `h`.* FROM `u`@`%`",
                ], true, []
            ),
            (
                [
                    "GRANT REFERENCES ON *.* TO `u`@`%`",
                    "REVOKE REFERENCES ON `h``i`.* FROM `u`@`%`",
                ], true, ["h`i"]
            ),
            (
                [
                    "GRANT SELECT, REFERENCES ON *.* TO `u`@`%`",
                    "REVOKE SELECT ON `a`.* FROM `u`@`%`",
                    "REVOKE SELECT, REFERENCES ON `b`.* FROM `u`@`%`",
                    "REVOKE SELECT, REFERENCES ON `mysql`.* FROM `u`@`%`",
                ], true, ["b"]
            ),
            (["GRANT SELECT ON `mysql`.`db` TO `u`@`%`"], false, []),
        ])
    func keys(_ lines: [String], _ areWide: Bool, _ hidden: [String]) {
        let rights = GrantedRights(lines)
        #expect(rights.areWide == areWide)
        #expect(rights.hiddenSchemas == hidden)
    }

    @Test("with partial_revokes a schema is a name and no pattern")
    func names() {
        let lines = ["GRANT TRIGGER ON `pus_`.* TO `u`@`%`"]
        let rights = GrantedRights(lines, hasPatterns: false)
        #expect(!rights.include("TRIGGER", on: "devices", of: "push"))
        #expect(rights.include("TRIGGER", on: "devices", of: "pus_"))
    }
}
