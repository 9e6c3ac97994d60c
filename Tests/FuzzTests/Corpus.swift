import Foundation

/// The kept inputs: Tests/Corpus, a folder for each target. An input that once broke a promise is
/// added there and stays.
enum Corpus {
    /// The folder of all.
    static let folder = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../Corpus").standardizedFileURL

    /// The inputs of a target by file name.
    static func inputs(_ target: FuzzTarget) throws -> [(name: String, bytes: [UInt8])] {
        let folder = folder.appending(path: target.name)
        return try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted().map {
            ($0, [UInt8](try Data(contentsOf: folder.appending(path: $0))))
        }
    }
}
