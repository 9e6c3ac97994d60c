// The settings files that `pushsweep check --example` prints. Each but the short one is also the
// whole settings file of a page in docs/recipes, word for word: a test compares the two, and writes
// the pages' copies anew. So a reader who prints the file has what the page describes, and the test
// that runs the page runs this text.

/// A settings file for one kind of user, ready to be edited.
package enum SettingsExample: String, Sendable, CaseIterable {
    /// The fewest lines that most installations need.
    case short
    /// The tables of the PushChat tutorial of 2011.
    case pushchat
    /// The same tables, sent for by a private gateway of the older interface, with its list of dead
    /// tokens.
    case pushchatGateway = "pushchat-gateway"
    /// A PHP sender after the Server Density tutorial: tokens in groups, a PKCS#12 certificate.
    case serverDensity = "server-density"
    /// The first kind of provider: command 0 on port 2195 and the feedback list on port 2196.
    case firstProvider = "first-provider"
    /// A sender of command 2, with upper-case tokens.
    case framed
    /// The table of django-push-notifications.
    case django
    /// A Rails table of devices beside the tables of rpush.
    case rpush
    /// A Laravel table of device tokens.
    case laravel
    /// A table of installations as Parse Server names it, beside a sender with node-apn.
    case node
    /// A gateway of one's own that speaks the feedback protocol.
    case privateGateway = "private-gateway"
    /// Several topics of one app bundle.
    case topics

    /// The file's text, ending with a line break.
    package var text: String {
        switch self {
        case .short: Self.shortText
        case .pushchat: Self.pushchatText
        case .pushchatGateway: Self.pushchatGatewayText
        case .serverDensity: Self.serverDensityText
        case .firstProvider: Self.firstProviderText
        case .framed: Self.framedText
        case .django: Self.djangoText
        case .rpush: Self.rpushText
        case .laravel: Self.laravelText
        case .node: Self.nodeText
        case .privateGateway: Self.privateGatewayText
        case .topics: Self.topicsText
        }
    }

    /// The page of the recipe below `docs/recipes`; nil for the short file, which has none.
    package var page: String? { self == .short ? nil : "\(rawValue).md" }

    /// The address of the database, which every example has in the same words.
    private static let database = """
        store:
          url: mysql://pushsweep@db.example.net:3306/push
          password-file: db-password
          #tls: {ca: db-ca.pem}   # where the system does not know the server's authority
        """

    /// The credential and the gateway for sending.
    private static let sending = """
            token-key: {file: AuthKey_ABC123DEFG.p8, key-id: ABC123DEFG, team-id: DEF123GHIJ}
            provider: {host: api.push.apple.com}
        """

    /// A private gateway of the older interface: sending on port 2195, the dead tokens on 2196.
    private static func older(_ command: Int? = nil) -> String {
        let address = "host: gateway.example.net, ca: gateway-ca.pem"
        let binary = command.map { "\(address), command: \($0)" } ?? address
        return "    binary: {\(binary)}\n    feedback: {\(address)}"
    }

    /// The tables of the PushChat tutorial.
    private static let pushchatTables = """
        \(database)
          active-users:
            token: {longest: 32}   # device_token has room for 64 hex digits
          push-queue:
            zone: "+00:00"         # the zone of NOW() in time_queued and time_sent
        """

    /// A table of devices with room for tokens of 32 bytes, and the first lines of its app.
    private static func chatDevices(registeredAt column: String) -> String {
        """
        \(database)
          active-users:
            table: devices
            token: {longest: 32}   # device_token has room for 64 hex digits
            registered-at: \(column)
        apps:
          - name: chat
            topic: com.example.chat
            environment: production
        """
    }

    private static let shortText = """
        # All settings: pushsweep check --example --all
        # For the tables of a known project: pushsweep check --example=NAME
        \(database)
        apps:
          - name: chat
            topic: com.example.chat
            environment: production
            # For `pushsweep send`:
            #token-key: {file: AuthKey_ABC123DEFG.p8, key-id: ABC123DEFG, team-id: DEF123GHIJ}
            #provider: {host: api.push.apple.com}

        """

    private static let pushchatText = """
        \(pushchatTables)
        apps:
          - name: pushchat
            topic: com.example.pushchat
            environment: production
        \(sending)

        """

    private static let pushchatGatewayText = """
        \(pushchatTables)
        policy: {action: delete, delete-without-registration-time: true}
        apps:
          - name: pushchat
            topic: com.example.pushchat
            environment: production
            certificate: {file: ck_production.pem, passphrase-file: pushchat-passphrase}
        \(older())

        """

    private static let serverDensityText = """
        \(chatDevices(registeredAt: "created_at"))
            certificate: {file: apns.pem}
            provider: {host: api.push.apple.com}

        """

    private static let firstProviderText = """
        \(chatDevices(registeredAt: "created_at"))
            certificate: {file: apns.pem}
        \(older(0))

        """

    private static let framedText = """
        \(chatDevices(registeredAt: "registered_at"))
            certificate: {file: chat.pem, key: chat.key}
        \(older())

        """

    private static let djangoText = """
        \(database)
          active-users:
            table: push_notifications_apnsdevice
            token: registration_id
            app: none              # application_id, if you use several applications
            registered-at: date_created
            living: {column: active, living: 1, dead: 0}
        apps:
          - name: chat
            topic: com.example.chat
            environment: production

        """

    private static let rpushText = """
        \(database)
          active-users:
            table: devices
            token: token
            platform: {column: platform, value: ios}
            registered-at: updated_at
        apps:
          - name: chat
            topic: com.example.chat
            environment: production

        """

    private static let laravelText = """
        \(database)
          active-users:
            table: device_tokens
            token: token
            platform: {column: platform, value: ios}
            registered-at: updated_at
        policy: {action: delete}
        apps:
          - name: chat
            topic: com.example.chat
            environment: production

        """

    private static let nodeText = """
        \(database)
          active-users:
            table: installations
            key: [objectId]
            token: deviceToken
            platform: {column: deviceType, value: ios}
            app: appIdentifier
            registered-at: updatedAt
        apps:
          - name: chat
            topic: com.example.chat
            environment: production
            value: com.example.chat

        """

    private static let privateGatewayText = """
        \(database)
        apps:
          - name: chat
            topic: com.example.chat
            environment: production
            certificate: {file: chat.p12, passphrase-file: chat-passphrase}
            feedback: {host: feedback.example.net, port: 2196, ca: gateway-ca.pem}

        """

    private static let topicsText: String = {
        var text = database + "\napps:\n"
        for (name, suffix) in [
            ("chat", ""), ("chat-voip", ".voip"), ("chat-complication", ".complication"),
            ("chat-activity", ".push-type.liveactivity"), ("chat-widgets", ".push-type.widgets"),
        ] {
            text += """
                  - name: \(name)
                    topic: com.example.chat\(suffix)
                    environment: production
                \(sending)

                """
        }
        return text
    }()
}
