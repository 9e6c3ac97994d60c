// The settings files that `pushsweep check --example` prints. Each but the short one is also a file in
// docs/recipes/settings, to which a page in docs/recipes leads: a test compares the two, and writes the
// copies anew. Variants of one recipe share a page. So a reader who prints the file has what the page describes, and the test
// that runs the page runs this text.

/// A settings file for one kind of user, ready to be edited; its text is in the folder Examples.
package enum SettingsExample: String, Sendable, CaseIterable {
    /// The fewest lines that most installations need.
    case short
    case pushchat
    case pushchatGateway = "pushchat-gateway"
    case serverDensity = "server-density"
    case firstProvider = "first-provider"
    case framed, django, rpush, laravel, node
    case privateGateway = "private-gateway"
    case topics

    /// The file's text, ending with a line break.
    package var text: String { String(decoding: bytes, as: UTF8.self) }

    private var bytes: [UInt8] {
        switch self {
        case .short: PackageResources.short_yaml
        case .pushchat: PackageResources.pushchat_yaml
        case .pushchatGateway: PackageResources.pushchat_gateway_yaml
        case .serverDensity: PackageResources.server_density_yaml
        case .firstProvider: PackageResources.first_provider_yaml
        case .framed: PackageResources.framed_yaml
        case .django: PackageResources.django_yaml
        case .rpush: PackageResources.rpush_yaml
        case .laravel: PackageResources.laravel_yaml
        case .node: PackageResources.node_yaml
        case .privateGateway: PackageResources.private_gateway_yaml
        case .topics: PackageResources.topics_yaml
        }
    }

    /// The page of the recipe below `docs/recipes`; nil for the short file, which has none.
    package var page: String? {
        switch self {
        case .short: nil
        case .privateGateway, .pushchatGateway, .firstProvider, .framed: "private-gateway.md"
        default: "\(rawValue).md"
        }
    }
}
