// What `check` says about the server itself, besides its version: which of several hosts answers, whether
// changes may go there, and what cluster or engine it belongs to. Runs ask the same questions at every
// connection and refuse by the same sentences; see ServerRole.swift.

import Findings

extension DatabaseSession {
    /// Examines which server answers and what it is. Empty for a file.
    ///
    /// - Throws: any failure of asking.
    package func examineServer() throws(StoreFailure) -> [Finding] {
        guard case .server(let server) = settings.location else { return [] }
        let doing = "asking \(settings.location) for its role"
        let role = try retries.retrying(doing, do: connection.role())
        guard let role else { return [] }
        var findings: [Finding] = []
        let hasOthers = server.addresses.count > 1
        if hasOthers, let host = connection.host {
            let others = server.addresses.filter { $0.description != host }
                .map { HostExamination($0, of: server, settings) }
            findings.append(
                .ok("of the hosts in store.url, \(host) answers to this check"))
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
    ) -> Finding {
        let name = role.identity?.description ?? "the server"
        if role.other == nil, let obstacle = role.obstacle {
            return judge(obstacle, role, hasOthers)
        }
        if role.isReadOnly {
            return .failure(
                .readOnly,
                "\(name) is set to read-only, so runs would wait; end its maintenance, or write the "
                    + "server that takes changes into store.url")
        }
        guard case .hidden(let isKnownIdle) = role.replication else {
            return .ok("\(name) takes changes and is no replica")
        }
        let grant = (try? replicationRight())?.grant(to: account)
        let cure = "\(grant ?? "grant it") to be told"
        return isKnownIdle
            ? .ok(
                "\(name) takes changes and no replication runs on it; whether one is stopped, this "
                    + "account may not see; \(cure)")
            : .warning(
                "server-in-doubt",
                "this account may not see whether \(name), which takes changes, is a replica; \(cure)",
                grant: grant)
    }

    private func splitting(
        _ role: ServerRole, _ hasOthers: Bool
    ) -> Finding {
        if role.other != nil, let obstacle = role.obstacle {
            return judge(obstacle, role, hasOthers)
        }
        return role.identity == nil
            ? .warning(
                "server-in-doubt",
                "the server does not say who it is, so that a proxy that splits reads from changes "
                    + "would not be found")
            : .ok("one server answers to reads and changes")
    }

    /// An obstacle to changes, as the settings judge it.
    private func judge(
        _ obstacle: String, _ role: ServerRole, _ hasOthers: Bool
    ) -> Finding {
        let objection = role.objection(
            acceptsReplica: settings.acceptsReplica, hasOthers: hasOthers)
        guard let objection else {
            return .warning("server-in-doubt", "accepted by store.accept-replica: \(obstacle)")
        }
        return .failure(
            .configuration, objection.kind == .misplaced ? objection.message : obstacle)
    }

    private func cluster(_ galera: GaleraState?) -> Finding? {
        guard let galera else { return nil }
        let state =
            "Galera node: \(galera.comment), its part of the cluster is \(galera.clusterStatus) and has "
            + "\(galera.size) \(galera.size == 1 ? "node" : "nodes")"
        if !galera.isReady || galera.clusterStatus != "Primary" {
            return .failure(
                .busy, "\(state); it takes no statements until it is Primary")
        }
        return galera.comment == "Synced" ? .ok(state) : .warning("server-in-doubt", state)
    }

    private func group(_ group: GroupMembership?) -> Finding? {
        guard let group else { return nil }
        if let obstacle = group.obstacle {
            let code: StoreFailure.Code = obstacle.kind == .permission ? .permission : .busy
            return .failure(code, obstacle.message)
        }
        guard case .member(let state, let reachable, let size) = group else { return nil }
        return .ok(
            "member of a replication group: \(state), reaches \(reachable) of \(size) members")
    }
}

extension DatabaseSession {
    /// Examines the throttle's sources for this session and the holder of a lease: the conditions
    /// that keep runs apart and slow them down.
    ///
    /// - Throws: only failures of reading the lease.
    package func examineThrottle(lease name: String) throws(StoreFailure) -> [Finding] {
        var findings: [Finding] = []
        if let holder = try leaseHolder(of: name) {
            findings.append(
                .ok("the lease on \(name) is held by \(holder)"))
        }
        guard pacing.throttle.asksServers else { return findings }
        let reading: ThrottleReading
        do {
            reading = try probe.read()
        } catch {
            return findings + [Finding(error)]
        }
        let load = reading.status.sorted { $0.key < $1.key }
            .map { "\($0.key) is \(LoadLimits.text($0.value))" }
        if !load.isEmpty {
            findings.append(.ok("load: \(load.joined(separator: ", "))"))
        }
        for replica in reading.lags {
            if let lag = replica.seconds {
                findings.append(
                    .ok("\(replica.name) lags \(Throttle.seconds(lag))"))
            } else {
                findings.append(
                    .warning(
                        "replica-unusable",
                        "\(replica.name) does not replicate or does not answer, so runs would pause; "
                            + "start it, or correct throttle.replicas"))
            }
        }
        return findings
    }

    /// The GRANT statement for reading the server's own replica lag; empty where the throttle does
    /// not need it. Named replicas need the same, each on its own server.
    ///
    /// - Throws: any failure of reading the server's description.
    package func lagGrants() throws(StoreFailure) -> [String] {
        guard pacing.throttle.maxLag != nil else { return [] }
        let right = try replicationRight(purpose: "read the replica lag of")
        return [try grant { _ in right }].compactMap { $0 }
    }
}
