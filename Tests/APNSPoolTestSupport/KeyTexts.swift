/// Key files of every kind, made with the `openssl` tool for these tests and used nowhere else.
enum KeyTexts {
    static let p256 = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgA5Sdg54ZGNoYMovX
        pXJb3veeMzfKTzCJTbS9DXPka0ChRANCAARcvPqRzkcJONtwRd3GNqYlOvaPHxld
        +94SeqJxWrQpcn8eONPwbP+7EBLO/2khK3pJXrBuldLO31uuHd7J8nNW
        -----END PRIVATE KEY-----

        """
    static let p256SEC1 = """
        -----BEGIN EC PRIVATE KEY-----
        MHcCAQEEIAOUnYOeGRjaGDKL16VyW973njM3yk8wiU20vQ1z5GtAoAoGCCqGSM49
        AwEHoUQDQgAEXLz6kc5HCTjbcEXdxjamJTr2jx8ZXfveEnqicVq0KXJ/HjjT8Gz/
        uxASzv9pISt6SV6wbpXSzt9brh3eyfJzVg==
        -----END EC PRIVATE KEY-----

        """
    static let p256WithParameters = """
        -----BEGIN EC PARAMETERS-----
        BggqhkjOPQMBBw==
        -----END EC PARAMETERS-----
        -----BEGIN EC PRIVATE KEY-----
        MHcCAQEEINHoYhv59t9007AhXqEgDCYxLkJk3o2KKBE1GwF8dM8qoAoGCCqGSM49
        AwEHoUQDQgAEzjDMA01Q8OaqzsPF049JXgscg1RGr/ShYpPi6G5MxrLaKD0JTI21
        MoVXWuew68egEgl1X6wOV63iAranEsChSA==
        -----END EC PRIVATE KEY-----

        """
    static let p256Explicit = """
        -----BEGIN PRIVATE KEY-----
        MIIBeQIBADCCAQMGByqGSM49AgEwgfcCAQEwLAYHKoZIzj0BAQIhAP////8AAAAB
        AAAAAAAAAAAAAAAA////////////////MFsEIP////8AAAABAAAAAAAAAAAAAAAA
        ///////////////8BCBaxjXYqjqT57PrvVV2mIa8ZR0GsMxTsPY7zjw+J9JgSwMV
        AMSdNgiG5wSTamZ44ROdJreBn36QBEEEaxfR8uEsQkf4vOblY6RA8ncDfYEt6zOg
        9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9QIhAP////8A
        AAAA//////////+85vqtpxeehPO5ysL8YyVRAgEBBG0wawIBAQQgVP02Z8QMXbc8
        TBF7H0W8YZEFBkG0zoprz1iTGwRkpKKhRANCAASpZMd8fvxxlL3u9wzY9QF7zKXE
        I4OgKGC4/Ajm6H8ez0W0gyMJbNsiEJySh5/5bzZNmBHcYRidUkubDNDeWqjW
        -----END PRIVATE KEY-----

        """
    static let encrypted = """
        -----BEGIN ENCRYPTED PRIVATE KEY-----
        MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAiqMQZ3beJj0gICCAAw
        DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEHb2CkLerZmwtyOyE6tbg54EgZCt
        WW0Fuf9cMZZT+RXPN+moZGu3q5/7BLGZARBLAkcEmZaRHwZVm2H4Ys8Merh4vE9I
        OHVn/yq2oZxQbR6/oXlMNaFQT2m65E813UE+vaOvwpTOSV+opXKNAAzBRU7JQV20
        uTBS1mSLTb3HOB2XrksC8f6PH++Ic/Tpj73i11bAHgg7xNRoq91w1++NxpFlZmk=
        -----END ENCRYPTED PRIVATE KEY-----

        """
    static let encryptedSEC1 = """
        -----BEGIN EC PRIVATE KEY-----
        Proc-Type: 4,ENCRYPTED
        DEK-Info: AES-128-CBC,24AB23C9DFCD8CF55CE5144AEA54C175

        vz5ta9GAEJiGCXDzXX5zySH3+HTSqmTk6ehsOvs1OSAxV5m5dlFby/1LzWnKONPz
        /snaCFhTS6Rr2VFwa7mBP7tHiaPBwMfnAJ+1Ni10TPu8Egwq1Fe3SWZblEoAPPlR
        c1aYs4s9YyuyDblPXMObryLaQdjHB/iA3gKhGsofvC4=
        -----END EC PRIVATE KEY-----

        """
    static let rsa = """
        -----BEGIN PRIVATE KEY-----
        MIICdwIBADANBgkqhkiG9w0BAQEFAASCAmEwggJdAgEAAoGBAPncodhDrpxI5nSo
        hcwWlUO2vZknwUzbT3hTt1WFut/jAvjAwSo2XoBewMYCOskdS0Cm5CVQIrI7k/gk
        KO+naPdjJ1ujPCh/2ST1IcAXmljjnnZSSJpC/I8MOHCCiu71EUAP+mhUX3PBTikx
        IljUuXYePcitEp6Y2V8M/e6Dn/XLAgMBAAECgYEA4l1+yx1WXgS1tM7QmLuE81nl
        n5Gi0GyILO07VWHYkelq0c5fskybhRVS9JEkjPvbJ3GLlDprlKnhPpgT9jrnHh8U
        VcqqYWJ4JdkazF6k/jtinIvwSG91piACe/gyUUhhSWJV7SGg2qqsLMZWoRENKiX6
        wF9mIMvekqaWLOk1N2ECQQD9pnDHP0TnxyoQGKkVPUEosJ2KFOUuVPNFPoAe462u
        h6neF53r/3Z2nqENmyfx8+JCcYANyuG+EJBg8R4RMFtTAkEA/C01Dvw9+KCbrevT
        HJtrDAKntovnphqGQUT2O6GgT1kXGzNyW2oIx695S726L/vdXggnXIigkfjR0r0/
        yzQkqQJAViRdbr1k+FYiSd8mJSltZJU+m3NnNenxyFVmi5cFGB3Iqb1Zi5lxsO1E
        gutrkHckIy6Kr6R0L+lOLy4T6QCEMwJAC0wbLGiwfgrz7n66HnX3/bnAubTa094s
        VZA5V8KN5AAhwN41KVM+wXNjA7mkNbIa4LOMz+BvERsMi1xfF0NmwQJBAMCSiGdD
        ZWnKI3pHIWtyKcm+/p4LwSmmPOtgFvCjVG3ccEfnczWgsMqwa8yE1iVivgWDMcYB
        H6q9MrF2qqxfFdk=
        -----END PRIVATE KEY-----

        """
    static let rsaPKCS1 = """
        -----BEGIN RSA PRIVATE KEY-----
        MIICXQIBAAKBgQD53KHYQ66cSOZ0qIXMFpVDtr2ZJ8FM2094U7dVhbrf4wL4wMEq
        Nl6AXsDGAjrJHUtApuQlUCKyO5P4JCjvp2j3Yydbozwof9kk9SHAF5pY4552Ukia
        QvyPDDhwgoru9RFAD/poVF9zwU4pMSJY1Ll2Hj3IrRKemNlfDP3ug5/1ywIDAQAB
        AoGBAOJdfssdVl4EtbTO0Ji7hPNZ5Z+RotBsiCztO1Vh2JHpatHOX7JMm4UVUvSR
        JIz72ydxi5Q6a5Sp4T6YE/Y65x4fFFXKqmFieCXZGsxepP47YpyL8EhvdaYgAnv4
        MlFIYUliVe0hoNqqrCzGVqERDSol+sBfZiDL3pKmlizpNTdhAkEA/aZwxz9E58cq
        EBipFT1BKLCdihTlLlTzRT6AHuOtroep3hed6/92dp6hDZsn8fPiQnGADcrhvhCQ
        YPEeETBbUwJBAPwtNQ78Pfigm63r0xybawwCp7aL56YahkFE9juhoE9ZFxszcltq
        CMeveUu9ui/73V4IJ1yIoJH40dK9P8s0JKkCQFYkXW69ZPhWIknfJiUpbWSVPptz
        ZzXp8chVZouXBRgdyKm9WYuZcbDtRILra5B3JCMuiq+kdC/pTi8uE+kAhDMCQAtM
        GyxosH4K8+5+uh519/25wLm02tPeLFWQOVfCjeQAIcDeNSlTPsFzYwO5pDWyGuCz
        jM/gbxEbDItcXxdDZsECQQDAkohnQ2VpyiN6RyFrcinJvv6eC8EppjzrYBbwo1Rt
        3HBH53M1oLDKsGvMhNYlYr4FgzHGAR+qvTKxdqqsXxXZ
        -----END RSA PRIVATE KEY-----

        """
    static let p384 = """
        -----BEGIN PRIVATE KEY-----
        MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDBHHeg41E7TV5GlbchG
        XTjm8ZeT4N105fftpWJgUlZNk02srJ0U3kX5fEmEpGP70+ehZANiAASmKnhpdOX3
        MR70sHkJbPA5T59pz/1A2dIgdVh3A6EbiaotcR6mKEBAS5OncCDYMT/SLeai+Ptw
        BUfmJl/j2NzTi7JHXRPvcSbNjUHjrq2VuXKUQpjpMaUJkn/zoKDoGDE=
        -----END PRIVATE KEY-----

        """
    static let p521 = """
        -----BEGIN PRIVATE KEY-----
        MIHuAgEAMBAGByqGSM49AgEGBSuBBAAjBIHWMIHTAgEBBEIAwSGCvNYystgmC6kW
        GcrSFBF42JvQn4NumLsc2tMZVjlxy8WJHXydPBZ3rv+osfJ6APHwEl7fkt379Git
        PJ18vT2hgYkDgYYABAF328Wc3b1lPwJ6l67MaXhTRX30B5Z88x8yK4QvUoYpoTwN
        tS/iyQf0C5RXjDS33UjRCgZxHqZ8lFDR0MDfBrYmZwGmAy/ItRCfF4psrKLTWJ8p
        hFpNhIjuYLGFwoWD/1zn4tCWplTtMZxZeAYdOFqUkd53xETF7wxBFhtlS4oOlSFF
        Vg==
        -----END PRIVATE KEY-----

        """
    static let secp256k1 = """
        -----BEGIN PRIVATE KEY-----
        MIGEAgEAMBAGByqGSM49AgEGBSuBBAAKBG0wawIBAQQghMWA95EqDGm2uoDyXK3h
        5yqgeMh3PLXDdp0oBvEyuPqhRANCAATfFRNHx9wBmEw/r9AGGiNuUA6Ccg0y5fP/
        oJ1vmX2ohbzWChtcZ8Mmzaa9obqq9V/ZFTmGZkSFgXPNhBv0i3L3
        -----END PRIVATE KEY-----

        """
    static let secp256k1SEC1 = """
        -----BEGIN EC PRIVATE KEY-----
        MHQCAQEEIP95MoOq2ouJpcKtgjlu3Ya0lK7KeITHkQGdVx74iQ8VoAcGBSuBBAAK
        oUQDQgAEnVrA7bWhWWIKqudmZYxATVbldbczPr/SMLNl0JCkJaGqyA7jVSKshVs6
        I4EiEVrlw7jYg9Nax10anp8YvdFAEQ==
        -----END EC PRIVATE KEY-----

        """
    static let ed25519 = """
        -----BEGIN PRIVATE KEY-----
        MC4CAQAwBQYDK2VwBCIEIMOmDBTB819PEeafMW4hzBKWktEkJX7gtulWIzOc4B9d
        -----END PRIVATE KEY-----

        """
    static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIIBbTCCAROgAwIBAgIUJsxLnqRcvwhLPhj1IEnM+GT4LtkwCgYIKoZIzj0EAwIw
        DDEKMAgGA1UEAwwBeDAeFw0yNjExMjEwNDUwNDBaFw0yNjEyMjEwNDUwNDBaMAwx
        CjAIBgNVBAMMAXgwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARcvPqRzkcJONtw
        Rd3GNqYlOvaPHxld+94SeqJxWrQpcn8eONPwbP+7EBLO/2khK3pJXrBuldLO31uu
        Hd7J8nNWo1MwUTAdBgNVHQ4EFgQUjAOQ7ed3yK0UPF1oe75GbopxEAEwHwYDVR0j
        BBgwFoAUjAOQ7ed3yK0UPF1oe75GbopxEAEwDwYDVR0TAQH/BAUwAwEB/zAKBggq
        hkjOPQQDAgNIADBFAiBLqYFNP3SXVcXdVbJm1wFUi91vavmA/j/UEBS5mmJuUQIh
        AOtf8gqH0UHuS/Y9HH+igdo4Of3cWsV29VLtNrlrDT8+
        -----END CERTIFICATE-----

        """
    static let publicKey = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEXLz6kc5HCTjbcEXdxjamJTr2jx8Z
        XfveEnqicVq0KXJ/HjjT8Gz/uxASzv9pISt6SV6wbpXSzt9brh3eyfJzVg==
        -----END PUBLIC KEY-----

        """
}
