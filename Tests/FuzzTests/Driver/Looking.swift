/// The target that was chosen; a C function cannot capture it.
private let chosen = FuzzTarget.all.first { $0.name == CommandLine.arguments.dropFirst().first }

/// libFuzzer calls this with each input. A broken promise ends the process, as a trap does, so that
/// libFuzzer keeps the input.
func look(_ data: UnsafePointer<UInt8>?, _ size: Int) -> CInt {
    do {
        try chosen?.check(Array(UnsafeBufferPointer(start: data, count: size)))
    } catch {
        fatalError("\(error)")
    }
    return 0
}

/// The same under the name that libFuzzer's own `main` needs: the linker takes that `main` too,
/// although SwiftPM then uses ours.
@_cdecl("LLVMFuzzerTestOneInput")
func lookForItsMain(_ data: UnsafePointer<UInt8>?, _ size: Int) -> CInt { look(data, size) }
