import Foundation
import FoundationXML

/// A page as an XML parser reads it, which takes no unclosed element, no bare `<` and no control character.
final class ParsedPage: NSObject, XMLParserDelegate {
    /// One element with its attributes, and the text in it and in its children.
    final class Element {
        let name: String
        let attributes: [String: String]
        var text = ""
        var children: [Element] = []

        init(_ name: String, _ attributes: [String: String]) {
            (self.name, self.attributes) = (name, attributes)
        }

        /// The elements of a name in it, in the order of the page.
        func all(_ name: String) -> [Element] {
            children.flatMap { ($0.name == name ? [$0] : []) + $0.all(name) }
        }
    }

    /// Every element of the page, in its order.
    private(set) var elements: [Element] = []
    /// What the parser refused; nil for a well-formed page.
    private(set) var refusal: String?
    private var open: [Element] = []

    init(_ text: String) {
        super.init()
        let parser = XMLParser(data: Data(text.utf8))
        parser.delegate = self
        if !parser.parse() {
            refusal = "line \(parser.lineNumber): \(String(describing: parser.parserError))"
        }
    }

    /// The elements of a name.
    func all(_ name: String) -> [Element] { elements.filter { $0.name == name } }

    /// The rows of the first table with a caption, as cells of text.
    func table(_ caption: String) -> [[String]] {
        let table = all("table").first { $0.all("caption").first?.text == caption }
        return (table?.all("tbody").first?.all("tr") ?? []).map { row in row.children.map(\.text) }
    }

    func parser(
        _ parser: XMLParser, didStartElement name: String, namespaceURI: String?,
        qualifiedName: String?, attributes: [String: String]
    ) {
        let element = Element(name, attributes)
        elements.append(element)
        open.last?.children.append(element)
        open.append(element)
    }

    func parser(
        _ parser: XMLParser, didEndElement name: String, namespaceURI: String?,
        qualifiedName: String?
    ) {
        open.removeLast()
    }

    func parser(_ parser: XMLParser, foundCharacters text: String) {
        for element in open { element.text += text }
    }
}
