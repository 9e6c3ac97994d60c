import Encodings

/// The claims of a provider token: a JSON Web Token (RFC 7519) signed with ES256.
/// Source: Apple, "Establishing a token-based connection to APNs".
package struct ProviderTokenClaims: Hashable, Sendable {
    /// The id of the signing key: `kid` of the header, ten characters.
    package let keyID: String
    /// The id of the key's team: the claim `iss`, ten characters.
    package let teamID: String
    /// The claim `iat`, in seconds. APNs accepts a token for an hour from then on.
    package private(set) var issuedAt: EpochSeconds

    /// Checks and stores the claims.
    package init(
        keyID: String, teamID: String, issuedAt: EpochSeconds
    ) throws(RequestRefusal) {
        for (id, kind, place) in [
            (keyID, "key", "as in the name of Apple's file AuthKey_<key id>.p8"),
            (teamID, "team", "see the membership page of the developer account"),
        ] where !Self.isIdentifier(id) {
            throw RequestRefusal(
                .invalidProviderToken,
                "\"\(PlainASCII.text(id))\" is no \(kind) id: it has ten capital letters and digits, "
                    + place)
        }
        (self.keyID, self.teamID, self.issuedAt) = (keyID, teamID, issuedAt)
    }

    /// The same claims with another `iat`.
    package func issued(at time: EpochSeconds) -> ProviderTokenClaims {
        var claims = self
        claims.issuedAt = time
        return claims
    }

    /// The signed bytes: header and claims in base64url with a dot between them (RFC 7515 section
    /// 5.1).
    package var signingInput: [UInt8] {
        let header = #"{"alg":"ES256","kid":"\#(keyID)"}"#
        let body = #"{"iss":"\#(teamID)","iat":\#(issuedAt.rawValue)}"#
        return Array("\(Base64URL.text(header.utf8)).\(Base64URL.text(body.utf8))".utf8)
    }

    /// The whole token with a signature of `signingInput` (64 bytes, RFC 7518 section 3.4).
    package func text(signature: [UInt8]) -> String {
        "\(String(decoding: signingInput, as: UTF8.self)).\(Base64URL.text(signature))"
    }

    private static func isIdentifier(_ text: String) -> Bool {
        text.utf8.count == 10
            && text.utf8.allSatisfy { byte in
                byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z")
                    || byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
            }
    }
}

/// A provider token parsed into its parts, its signature not yet checked.
package struct ReceivedProviderToken: Hashable, Sendable {
    /// The claims in the token.
    package let claims: ProviderTokenClaims
    /// The bytes that were signed.
    package let signingInput: [UInt8]
    /// The signature as received, not checked.
    package let signature: [UInt8]

    /// The most bytes of a text that is parsed; Apple's tokens have about 200.
    private static let longest = 4_096

    /// Parses a token; nil unless it has three parts, `alg` ES256, a `kid`, an `iss` and an `iat`
    /// that is a whole number of seconds.
    package init?(_ text: [UInt8]) {
        let parts = text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard text.count <= Self.longest, parts.count == 3,
            let header = Self.object(parts[0]), let body = Self.object(parts[1]),
            let signature = Base64URL.decode(parts[2]),
            header["alg"] == .text("ES256"), case .text(let keyID) = header["kid"],
            case .text(let teamID) = body["iss"], case .integer(let time) = body["iat"],
            let issuedAt = UInt32(exactly: time),
            let claims = try? ProviderTokenClaims(
                keyID: keyID, teamID: teamID, issuedAt: EpochSeconds(issuedAt))
        else { return nil }
        self.claims = claims
        self.signature = signature
        signingInput = Array(text[..<(parts[2].startIndex - 1)])
    }

    private static func object(_ part: ArraySlice<UInt8>) -> JSONObject? {
        guard let bytes = Base64URL.decode(part),
            let object = bytes.withUnsafeBytes({ JSONObject($0) })
        else { return nil }
        return ["alg", "kid", "iss", "iat"].contains(where: object.isAmbiguous) ? nil : object
    }
}
