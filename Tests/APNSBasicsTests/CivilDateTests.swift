import APNSBasics
import Testing

struct CivilDateTests {
    @Test(
        "A day is the one of its first and last second, and is written as year, month and day",
        arguments: [
            (0, "1970-01-01"), (951_782_400, "2000-02-29"), (951_868_800, "2000-03-01"), (1_735_689_599, "2024-12-31"),
            (4_107_542_400, "2100-03-01"), (-1, "1969-12-31"), (253_402_300_799, "9999-12-31"),
        ] as [(Int64, String)]
    )
    func days(_ seconds: Int64, _ text: String) {
        let civil = CivilDate(secondsSince1970: seconds)
        #expect("\(civil)" == text)
        #expect(civil.daysSince1970 == CivilDate.quotient(seconds, 86_400))
    }

    @Test("Each day of 800 years is followed by the next one")
    func everyDay() {
        for day in Int64(-200_000)..<100_000 {
            let civil = CivilDate(secondsSince1970: day * 86_400)
            #expect(civil.daysSince1970 == day)
            #expect((1...12).contains(civil.month) && (1...31).contains(civil.day))
        }
    }

    @Test("Extreme times do not trap", arguments: [Int64.min, .max])
    func extremes(_ seconds: Int64) {
        #expect("\(CivilDate(secondsSince1970: seconds))".contains("-"))
    }
}
