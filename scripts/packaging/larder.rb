# The formula for Homebrew. scripts/release fills in the version and the checksums.
class Larder < Formula
  desc "Installs and verifies providers of Terraform and OpenTofu"
  homepage "https://github.com/larder-cli/larder"
  version "VERSION"
  license "MPL-2.0"

  on_macos do
    on_arm do
      url "URL_darwin_arm64.tar.gz"
      sha256 "SHA256(darwin_arm64.tar.gz)"
    end
    on_intel do
      url "URL_darwin_amd64.tar.gz"
      sha256 "SHA256(darwin_amd64.tar.gz)"
    end
  end

  on_linux do
    on_arm do
      url "URL_linux_arm64.tar.gz"
      sha256 "SHA256(linux_arm64.tar.gz)"
    end
    on_intel do
      url "URL_linux_amd64.tar.gz"
      sha256 "SHA256(linux_amd64.tar.gz)"
    end
  end

  def install
    bin.install "larder"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/larder.bash" => "larder"
    zsh_completion.install "completions/_larder"
    fish_completion.install "completions/larder.fish"
    pkgshare.install "licenses"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/larder version")
  end
end
