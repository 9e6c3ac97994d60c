// What `check` says about the server itself, besides its version: which of several hosts answers, whether
// changes may go there, and what cluster or engine it belongs to. Runs ask the same questions at every
// connection and refuse by the same sentences; see ServerRole.swift.

extension DatabaseSession {
    /// Examines which server answers and what it is. Empty for a file.
    ///
    /// - Throws: any failure of asking.
    package func examineServer() throws(StoreFailure) -> [StoreFinding] {
        guard case .server(let server) = settings.location else { return [] }
        let doing = "asking \(settings.location) for its role"
        let role = try retries.retrying(doing, do: connection.role())
        guard let role else { return [] }
        var findings: [StoreFinding] = []
        let hasOthers = server.addresses.count > 1
        if hasOthers, let host = connection.host {
            let others = server.addresses.filter { $0.description != host }
                .map { HostExamination($0, of: server, settings) }
            findings.append(
                StoreFinding(.ok, "of the hosts in store.url, \(host) answers to this check"))
            findings += others.map(\.finding)
            let clocks = [ClockReading(connection, host)] + others.map(\.clock)
            findings += [ClockReading.finding(clocks.compactMap { $0 })].compactMap { $0 }
        }
        let account = try describe().account ?? server.user
        findings += [roleFinding(role, account, hasOthers), splitting(role, hasOthers)]
        findings += [cluster(role.galera), group(role.group)]
            .compactMap { $0 }
        return findings
    }

    /// The right to see what a server replicates. MariaDB has one of its own since 10.5.9, and
    /// REPLICATION CLIENT no longer includes it.
    ///
    /// - Throws: any failure of reading the server's description.
    package func replicationRight(
        purpose: String = "see the replication of"
    ) throws(StoreFailure) -> Privilege {
        let isMariaDB = try describe().version.hasPrefix("MariaDB")
        return Privilege(
            purpose: purpose,
            privileges: isMariaDB ? "REPLICA MONITOR" : "REPLICATION CLIENT", table: "*.*",
            probe: "")
    }

    /// The GRANT statement for seeing the members of the server's replication group, without which every
    /// job refuses such a server; empty for other servers. Without `account` it is for that of this
    /// connection.
    ///
    /// - Throws: any failure of asking.
    package func groupGrants(to account: String? = nil) throws(StoreFailure) -> [String] {
        let role = try retries.retrying(
            "asking \(settings.location) for its group", do: connection.role())
        guard role?.group != nil else { return [] }
        let own = account == nil ? try describe().account : nil
        return [account ?? own].compactMap { $0.map(GroupMembership.right.grant(to:)) }
    }

    private func roleFinding(
        _ role: ServerRole, _ account: String, _ hasOthers: Bool
    ) -> StoreFinding {
        let name = role.identity?.description ?? "the server"
        if role.other == nil, let obstacle = role.obstacle {
            return judge(obstacle, role, hasOthers)
        }
        if role.isReadOnly {
            return StoreFinding(
                .failure(.readOnly),
                "\(name) is set to read-only, so runs would wait; end its maintenance, or write the "
                    + "server that takes changes into store.url")
        }
        guard case .hidden(let isKnownIdle) = role.replication else {
            return StoreFinding(.ok, "\(name) takes changes and is no replica")
        }
        let grant = (try? replicationRight())?.grant(to: account)
        let cure = "this account may not see; \(grant ?? "grant it") to be told"
        return isKnownIdle
            ? StoreFinding(
                .ok,
                "\(name) takes changes and no replication runs on it; whether one is stopped, \(cure)"
            )
            : StoreFinding(
                .warning, "\(name) takes changes; whether it is a replica, \(cure)", grant: grant)
    }

    private func splitting(
        _ role: ServerRole, _ hasOthers: Bool
    ) -> StoreFinding {
        if role.other != nil, let obstacle = role.obstacle {
            return judge(obstacle, role, hasOthers)
        }
        return role.identity == nil
            ? StoreFinding(
                .warning,
                "the server does not say who it is, so that a proxy that splits reads from changes "
                    + "would not be found")
            : StoreFinding(.ok, "one server answers to reads and changes")
    }

    /// An obstacle to changes, as the settings judge it.
    private func judge(
        _ obstacle: String, _ role: ServerRole, _ hasOthers: Bool
    ) -> StoreFinding {
        let objection = role.objection(
            acceptsReplica: settings.acceptsReplica, hasOthers: hasOthers)
        guard let objection else {
            return StoreFinding(.warning, "accepted by store.accept-replica: \(obstacle)")
        }
        return StoreFinding(
            .failure(.configuration),
            objection.kind == .misplaced ? objection.message : obstacle)
    }

    private func cluster(_ galera: GaleraState?) -> StoreFinding? {
        guard let galera else { return nil }
        let state =
            "Galera node: \(galera.comment), its part of the cluster is \(galera.clusterStatus) and has "
            + "\(galera.size) \(galera.size == 1 ? "node" : "nodes")"
        if !galera.isReady || galera.clusterStatus != "Primary" {
            return StoreFinding(
                .failure(.busy), "\(state); it takes no statements until it is Primary")
        }
        return StoreFinding(galera.comment == "Synced" ? .ok : .warning, state)
    }

    private func group(_ group: GroupMembership?) -> StoreFinding? {
        guard let group else { return nil }
        if let obstacle = group.obstacle {
            let code: StoreFailure.Code = obstacle.kind == .permission ? .permission : .busy
            return StoreFinding(.failure(code), obstacle.message)
        }
        guard case .member(let state, let reachable, let size) = group else { return nil }
        return StoreFinding(
            .ok, "member of a replication group: \(state), reaches \(reachable) of \(size) members")
    }
}
