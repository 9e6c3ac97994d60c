import Dispatch

extension Array {
    /// The results of a body for each element, in the order of the elements. The body runs on several
    /// threads at once, so it may not change anything that it shares.
    package func concurrentMap<Result>(_ body: (Element) -> Result) -> [Result] {
        withoutActuallyEscaping(body) { body in
            [Result](unsafeUninitializedCapacity: count) { results, made in
                // unsafe: each iteration makes the element of its own number, the others are only read, and
                // all iterations have ended when concurrentPerform returns.
                nonisolated(unsafe) let (places, elements, body) = (results, self, body)
                DispatchQueue.concurrentPerform(iterations: elements.count) { number in
                    places.initializeElement(at: number, to: body(elements[number]))
                }
                made = elements.count
            }
        }
    }
}
