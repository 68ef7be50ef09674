# A Homebrew formula for apns and apns-relay, built from the sources. `make release` fills in the place, the version and
# the sum. Not tested: it was never installed, and no test of this repository runs on macOS.
class SwiftApnsPool < Formula
  desc "Command-line tool, simulator and durable relay for Apple push notifications"
  homepage "@HOMEPAGE@"
  url "@URL@/swift-apns-pool-@VERSION@.tar.gz"
  version "@VERSION@"
  sha256 "@SHA256@"
  license "Apache-2.0"

  depends_on "curl"
  depends_on "pkgconf" => :build
  depends_on xcode: ["26.0", :build]
  depends_on "libnghttp2"
  depends_on "libpq"
  depends_on macos: :sequoia
  depends_on "openssl@3"
  uses_from_macos "sqlite"

  def install
    # Homebrew has a sandbox of its own, and keeps these libraries out of the usual folders.
    ENV.prepend_path "PKG_CONFIG_PATH", Formula["curl"].opt_lib/"pkgconfig"
    ENV.prepend_path "PKG_CONFIG_PATH", Formula["libpq"].opt_lib/"pkgconfig"
    ENV.prepend_path "PKG_CONFIG_PATH", Formula["openssl@3"].opt_lib/"pkgconfig"
    %w[apns apns-relay].each do |program|
      system "swift", "build", "--disable-sandbox", "--package-path", "Relay", "--configuration", "release",
             "--product", program
      bin.install "Relay/.build/release/#{program}"
      generate_completions_from_executable(bin/program, "--generate-completion-script")
    end
    (etc/"apns-relay").install "Relay/Deploy/apns-relay.json"
    (var/"lib/apns-relay").mkpath
  end

  service do
    run [opt_bin/"apns-relay", "serve", "--config", etc/"apns-relay/apns-relay.json"]
    working_dir var/"lib/apns-relay"
    keep_alive true
    log_path var/"log/apns-relay.log"
    error_log_path var/"log/apns-relay.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/apns --version")
    assert_match version.to_s, shell_output("#{bin}/apns-relay --version")
  end
end
