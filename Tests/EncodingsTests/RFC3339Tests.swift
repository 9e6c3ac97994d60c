import Encodings
import Testing

@Suite("Times as text") struct RFC3339Tests {
    @Test("times are RFC 3339 in UTC, with milliseconds where the source has them")
    func spelling() {
        #expect(RFC3339.text(1_700_000_000) == "2023-11-14T22:13:20Z")
        #expect(RFC3339.text(milliseconds: 1_700_000_000_042) == "2023-11-14T22:13:20.042Z")
        #expect(RFC3339.text(milliseconds: 951_782_400_000) == "2000-02-29T00:00:00.000Z")
    }

    @Test("times before 1970 count from the second before")
    func negative() {
        #expect(RFC3339.text(milliseconds: -1) == "1969-12-31T23:59:59.999Z")
        #expect(RFC3339.text(milliseconds: -86_400_000) == "1969-12-31T00:00:00.000Z")
    }

    @Test("the year has four digits, as the RFC demands")
    func years() {
        #expect(RFC3339.text(-62_135_596_800) == "0001-01-01T00:00:00Z")
        #expect(RFC3339.text(253_402_300_799) == "9999-12-31T23:59:59Z")
    }

    @Test("times that no calendar covers print as a number of seconds")
    func beyondTheCalendar() {
        #expect(RFC3339.text(.max) == "9223372036854775807 s")
        #expect(RFC3339.text(milliseconds: .max) == "292278994-08-17T07:12:55.807Z")
        #expect(RFC3339.text(milliseconds: .min) == "-292275055-05-16T16:47:04.192Z")
    }
}
