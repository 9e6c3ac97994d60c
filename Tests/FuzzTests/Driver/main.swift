// pushsweep-fuzz TARGET [libFuzzer's own arguments]: lets libFuzzer call one target until it finds
// an input that ends the process. Built by scripts/fuzz only; Package.swift has it where
// PUSHSWEEP_FUZZ is set.

import Foundation

// Part of the compiler's runtime, which has no module: int LLVMFuzzerRunDriver(int *argc, char
// ***argv, int (*callback)(const uint8_t *data, size_t size))
@_silgen_name("LLVMFuzzerRunDriver")
func runLibFuzzer(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ callback: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

let wanted = CommandLine.arguments.dropFirst().first ?? ""
guard let target = FuzzTarget.all.first(where: { $0.name == wanted }) else {
    let names = FuzzTarget.all.map(\.name).joined(separator: " ")
    print("usage: pushsweep-fuzz TARGET [ARGUMENTS OF LIBFUZZER]; targets: \(names)")
    exit(64)
}

var arguments =
    ([CommandLine.arguments[0], "-max_len=\(target.longest)"] + CommandLine.arguments.dropFirst(2))
    .map { strdup($0) }
var count = CInt(arguments.count)
arguments.append(nil)
let code = arguments.withUnsafeMutableBufferPointer { buffer in
    guard var start = buffer.baseAddress else { return CInt(70) }
    return runLibFuzzer(&count, &start, look)
}
exit(code)
