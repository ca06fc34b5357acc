#!/bin/sh
# Installs larder from a release, after verifying it. It changes nothing but the file larder in one
# directory, and never asks for root.
#
#   install.sh                      install the newest release
#   install.sh --version 0.1.0      install this release
#   install.sh --dir DIR            to DIR, by default ~/.local/bin, or /usr/local/bin for root
#   install.sh --require-signature  fail if the signature of the checksums cannot be verified
#   install.sh --key FILE           require a signature by this OpenPGP public key, such as the key of a mirror
#   install.sh --uninstall          remove larder from the directory
#
# LARDER_INSTALL_URL is the URL of a mirror with the files download/vVERSION/FILE and, to find
# the newest release, latest/download/SHA256SUMS.
set -eu

# The public key of the releases, in ASCII armor. There is none yet.
release_key=''

fail() {
  echo "install.sh: error: $1" >&2
  [ $# = 1 ] || echo "hint: $2" >&2
  exit 1
}

# fetch URL FILE
fetch() {
  if command -v curl >/dev/null; then
    case $1 in
      https://*) curl -fsSL --proto '=https' --tlsv1.2 -o "$2" "$1" ;;
      *) curl -fsSL -o "$2" "$1" ;;
    esac
  elif command -v wget >/dev/null; then
    wget -q -O "$2" "$1"
  else
    fail "neither curl nor wget is installed"
  fi
}

# checksum FILE: prints its SHA-256.
checksum() {
  if command -v sha256sum >/dev/null; then
    sum=$(sha256sum <"$1")
  elif command -v shasum >/dev/null; then
    sum=$(shasum -a 256 <"$1")
  elif command -v sha256 >/dev/null; then
    sum=$(sha256 -q <"$1") # of FreeBSD
  else
    fail "no sha256sum, shasum or sha256 is installed to verify the download with"
  fi
  echo "${sum%% *}"
}

# unsigned REASON: the signature cannot be verified.
unsigned() {
  [ -z "$require" ] || fail "signature not verified: $1" "omit $require to install with checksums only"
  echo "install.sh: verified with checksums only, not with a signature: $1" >&2
}

# verify_signature URL: verifies $tmp/SHA256SUMS with the key, if there is one.
verify_signature() {
  if [ -z "$release_key" ]; then
    unsigned "Larder's releases have no key yet"
    return
  fi
  # gpgv requires a key without armor.
  if printf '%s\n' "$release_key" | grep -q '^-----BEGIN PGP PUBLIC KEY BLOCK-----'; then
    printf '%s\n' "$release_key" | tr -d '\r' | sed -n '/^$/,/^[=-]/p' | grep -v '^[=-]' | base64 -d >"$tmp/key.gpg"
  else
    fail "the key is not an OpenPGP public key in ASCII armor" "gpg --armor --export FINGERPRINT writes one"
  fi
  from=$1
  if command -v gpgv >/dev/null; then
    set -- gpgv
  elif command -v gpg >/dev/null; then
    mkdir -m 700 "$tmp/gnupg"
    set -- gpg --homedir "$tmp/gnupg" --no-default-keyring --trust-model always --verify
  else
    unsigned "neither gpgv nor gpg is installed"
    return
  fi
  fetch "$from/SHA256SUMS.sig" "$tmp/SHA256SUMS.sig" || fail "$from/SHA256SUMS.sig: cannot download the signature"
  "$@" --keyring "$tmp/key.gpg" "$tmp/SHA256SUMS.sig" "$tmp/SHA256SUMS" 2>"$tmp/log" || {
    cat "$tmp/log" >&2
    fail "$from/SHA256SUMS: the signature is not valid"
  }
  echo "install.sh: verified the signature of SHA256SUMS" >&2
}

# The version becomes part of paths.
check_version() {
  case $version in
    *[!0-9A-Za-z.-]*) fail "not a version: $version" ;;
  esac
}

main() {
  base=${LARDER_INSTALL_URL:-https://github.com/larder-cli/larder/releases}
  base=${base%/}
  version='' dir='' require='' uninstall=''
  while [ $# -gt 0 ]; do
    case $1 in
      --version | --dir | --key) [ $# -gt 1 ] || fail "$1 requires a value" ;;
    esac
    case $1 in
      --version) version=${2#v} && shift ;;
      --dir) dir=$2 && shift ;;
      --key) release_key=$(cat -- "$2") || fail "--key: cannot read $2"
        [ -n "$release_key" ] || fail "--key: $2 is empty"
        require=--key
        shift ;;
      --require-signature) require=${require:---require-signature} ;;
      --uninstall) uninstall=1 ;;
      --help | -h)
        echo "usage: install.sh [--version VERSION] [--dir DIR] [--key FILE] [--require-signature] [--uninstall]"
        return ;;
      *) fail "unknown argument $1" "install.sh --help lists the flags" ;;
    esac
    shift
  done
  if [ -z "$dir" ]; then
    if [ "$(id -u)" = 0 ]; then dir=/usr/local/bin; else dir=$HOME/.local/bin; fi
  fi
  case $dir in
    /* | ?:*) ;;
    *) dir=$PWD/$dir ;;
  esac
  check_version

  program=larder format=tar.gz
  case $(uname -s) in
    Linux) os=linux ;;
    Darwin) os=darwin ;;
    FreeBSD) os=freebsd ;;
    MINGW* | MSYS* | CYGWIN*) os=windows program=larder.exe format=zip ;;
    *) os=$(uname -s) ;;
  esac
  case $(uname -m) in
    x86_64 | amd64) arch=amd64 ;;
    aarch64 | arm64) arch=arm64 ;;
    *) arch=$(uname -m) ;;
  esac
  # A shell that Rosetta translates.
  if [ "$os" = darwin ] && [ "$(sysctl -n sysctl.proc_translated 2>/dev/null)" = 1 ]; then arch=arm64; fi

  if [ -n "$uninstall" ]; then
    [ -e "$dir/$program" ] || fail "$dir/$program does not exist" "name its directory with --dir"
    rm -f -- "$dir/$program"
    echo "Removed $dir/$program. Its cache and configuration still exist."
    return
  fi

  tmp=$(mktemp -d "${TMPDIR:-/tmp}/larder.XXXXXX")
  staged=
  trap 'rm -rf "$tmp" ${staged:+"$staged"}' EXIT
  trap 'exit 1' HUP INT TERM

  from=$base/latest/download
  [ -z "$version" ] || from=$base/download/v$version
  fetch "$from/SHA256SUMS" "$tmp/SHA256SUMS" || fail "$from/SHA256SUMS: cannot download it"
  verify_signature "$from"
  if [ -z "$version" ]; then
    version=$(sed -n 's/^[0-9a-f]* [ *]larder_\(.*\)_linux_amd64\.tar\.gz$/\1/p' "$tmp/SHA256SUMS")
    [ -n "$version" ] || fail "$from/SHA256SUMS: lists no release"
  fi
  check_version

  archive=larder_${version}_${os}_$arch
  sum=$(awk -v file="$archive.$format" '$2 == file || $2 == "*" file { print $1 }' "$tmp/SHA256SUMS")
  [ -n "$sum" ] || fail "larder $version has no archive for ${os}_$arch" \
    "with Go, build it: go install github.com/larder-cli/larder/cmd/larder@v$version"
  url=$base/download/v$version/$archive.$format
  fetch "$url" "$tmp/archive" || fail "$url: cannot download it"
  actual=$(checksum "$tmp/archive")
  [ "$actual" = "$sum" ] || fail "$url: wrong checksum: $actual instead of $sum" \
    "the download was cut off or changed; try again later, or report it"

  if [ "$format" = zip ]; then
    unzip -q "$tmp/archive" "$archive/$program" -d "$tmp"
  else
    tar -xzf "$tmp/archive" -C "$tmp" "$archive/$program"
  fi
  [ ! -d "$dir/$program" ] || fail "$dir/$program is a directory" "name another directory with --dir"
  mkdir -p -- "$dir" || fail "$dir: cannot create it" "name another directory with --dir"
  # In the same directory, so that the rename is atomic.
  staged=$(mktemp "$dir/.larder.XXXXXX") || fail "$dir: cannot write to it" "name another directory with --dir"
  cat "$tmp/$archive/$program" >"$staged"
  chmod 755 "$staged"
  "$staged" version >/dev/null || fail "larder $version does not run on this machine"
  mv -f -- "$staged" "$dir/$program"
  staged=
  echo "Installed larder $version as $dir/$program"
  case :$PATH: in
    *":$dir:"*) ;;
    *) echo "Add $dir to PATH to run it." ;;
  esac
}

main "$@"
