// gen ca|key|csr|crt|keypair: create the files of a public key infrastructure in the working
// directory, as Talos does. They work locally; every file is written with mode 0600.
//
// A private key is never overwritten without --force, because there may be no other copy. Requests
// and certificates are overwritten, because this renews them.
#include <kj/encoding.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/net/ip.h"
#include "common/tls/pki.h"
#include "common/wire/roles.h"
#include "talosctl/configure/apply-configs.h"
#include "talosctl/configure/configure-commands.h"

namespace talos::talosctl {
namespace {

constexpr size_t kMostPemBytes = 1u << 20;

void writeOut(Invocation& call, kj::StringPtr path, kj::StringPtr text) {
  writeFileAtomically(path, text, 0600);
  call.wrote(path);
}

bool isSameFile(kj::StringPtr a, kj::StringPtr b) {
  struct stat one, other;
  return stat(a.cStr(), &one) == 0 && stat(b.cStr(), &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

// Returns the value of a flag that becomes part of a file name.
kj::StringPtr fileName(Invocation& call, kj::StringPtr flag) {
  auto name = call.text(flag);
  if (name.size() == 0 || name == "." || name == ".." || name.findFirst('/') != nullptr) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("--", flag, ": \"", name, "\" is not a valid name of a file in this folder"));
  }
  return name;
}

kj::String address(Invocation& call) {
  KJ_IF_MAYBE (ip, Ip::parse(call.text("ip"))) return ip->toString();
  fail(ErrorKind::kInvalidArgument,
       kj::str("--ip: \"", call.text("ip"), "\" is not a valid IP address"));
}

kj::Duration hours(Invocation& call) {
  auto count = call.number("hours");
  constexpr int64_t kMost = 100 * 8766;  // a century
  if (count < 1 || count > kMost) {
    fail(ErrorKind::kInvalidArgument, kj::str("--hours: must be 1 to ", kMost, ", not ", count));
  }
  return count * kj::HOURS;
}

kj::Array<kj::String> roles(Invocation& call) {
  checkClientRoles(call.list("roles"), "--roles");
  return KJ_MAP(role, call.list("roles")) {
    return kj::str(role);
  };
}

// Adds the file name to errors about the file's content.
template <typename F>
auto of(kj::StringPtr path, F&& read) {
  try {
    return read();
  } catch (const kj::Exception& e) {
    fail(kindOf(e), kj::str(path, ": ", messageOf(e)));
  }
}

kj::Promise<int> runGenCa(Invocation& call) {
  auto name = fileName(call, "organization");
  auto key = kj::str(name, ".key"), certificate = kj::str(name, ".crt");
  auto lifetime = hours(call);
  refuseExisting(call, key);
  auto made = pki::makeAuthority(
      {.organization = name,
       .keyType = call.on("rsa") ? pki::KeyType::kRsa4096 : pki::KeyType::kEd25519,
       .lifetime = lifetime});
  auto hash = kj::decodeBase64(pki::fingerprint(made.certificate));
  writeOut(call, key, made.key);
  writeOut(call, certificate, made.certificate);
  writeOut(call, kj::str(name, ".sha256"), kj::str("sha256:", kj::encodeHex(hash), "\n"));
  return 0;
}

kj::Promise<int> runGenKeypair(Invocation& call) {
  auto name = fileName(call, "organization");
  auto key = kj::str(name, ".key");
  refuseExisting(call, key);
  kj::Vector<kj::String> addresses;
  if (call.given("ip")) addresses.add(address(call));
  auto made = pki::makeAuthority(
      {.organization = name, .lifetime = 24 * kj::HOURS, .addresses = addresses});
  writeOut(call, key, made.key);
  writeOut(call, kj::str(name, ".crt"), made.certificate);
  return 0;
}

kj::Promise<int> runGenKey(Invocation& call) {
  auto path = kj::str(fileName(call, "name"), ".key");
  refuseExisting(call, path);
  writeOut(call, path, pki::makeKey(pki::KeyType::kEd25519));
  return 0;
}

// Returns "dir/admin.csr" for "dir/admin.key".
kj::String requestPath(kj::StringPtr keyPath) {
  size_t end = keyPath.size();
  KJ_IF_MAYBE (dot, keyPath.findLast('.')) {
    size_t slash = keyPath.findLast('/').orDefault(0);
    if (*dot > slash) end = *dot;
  }
  return kj::str(keyPath.slice(0, end), ".csr");
}

kj::Promise<int> runGenCsr(Invocation& call) {
  auto path = call.text("key");
  pki::LeafOptions options;
  options.addresses = kj::arr(address(call));
  options.organizations = roles(call);
  pki::Pem key(readFile(path, kMostPemBytes));
  auto request = of(path, [&] { return pki::makeRequest(key, options); });
  auto target = requestPath(path);
  if (isSameFile(path, target)) {
    fail(ErrorKind::kConflict,
         kj::str(path, ": the request would replace the key; rename the key, such as to ",
                 path.slice(0, path.size() - 4), ".key"));
  }
  writeOut(call, target, request);
  return 0;
}

kj::Promise<int> runGenCrt(Invocation& call) {
  auto name = fileName(call, "name");
  auto lifetime = hours(call);
  auto authorityPath = kj::str(call.text("ca"), ".crt");
  auto keyPath = kj::str(call.text("ca"), ".key");
  auto requestPath = call.text("csr");
  auto target = kj::str(name, ".crt");
  if (isSameFile(target, authorityPath)) {
    fail(ErrorKind::kConflict,
         kj::str(target, ": the certificate would replace that of the CA; use another --name"));
  }
  auto authority = readFile(authorityPath, kMostPemBytes);
  pki::Pem key(readFile(keyPath, kMostPemBytes));
  auto request = readFile(requestPath, kMostPemBytes);
  of(authorityPath, [&] { return pki::inspect(authority); });
  of(keyPath, [&] { pki::checkPair(authority, key); });
  auto asked = of(requestPath, [&] { return pki::inspectRequest(request); });
  pki::LeafOptions options;
  options.commonName = asked.commonName;
  options.organizations = call.given("roles") ? roles(call) : asked.organizations.releaseAsArray();
  options.dnsNames = asked.dnsNames.releaseAsArray();
  options.addresses = asked.addresses.releaseAsArray();
  options.lifetime = lifetime;
  writeOut(call, target, of(requestPath, [&] {
             return pki::signRequest(authority, key, request, kj::mv(options));
           }));
  return 0;
}

Command& declare(Command& gen, kj::StringPtr name, kj::StringPtr summary, Run run) {
  auto& command = gen.add(name, summary);
  command.run = run;
  return command;
}

Flag required(kj::StringPtr name, kj::StringPtr help) {
  return {.name = name, .kind = FlagKind::kText, .help = help, .required = true};
}

Flag lifetime(kj::StringPtr fallback) {
  return {.name = "hours",
          .kind = FlagKind::kNumber,
          .fallback = fallback,
          .help = "lifetime of the certificate"};
}

Flag rolesFlag(kj::StringPtr fallback, kj::StringPtr help) {
  return {.name = "roles", .kind = FlagKind::kList, .fallback = fallback, .help = help};
}

}  // namespace

void addPkiCommands(Command& root) {
  auto& gen = KJ_ASSERT_NONNULL(root.child("gen"));

  auto& ca = declare(gen, "ca", "Generate a certificate authority", runGenCa);
  ca.flag(
      required("organization", "name of the CA and of its files: NAME.crt, NAME.key, NAME.sha256"));
  ca.flag(lifetime("87600"));
  ca.flag({.name = "rsa", .help = "use a key of type RSA 4096 instead of Ed25519"});

  auto& keypair =
      declare(gen, "keypair", "Generate a key and a self-signed certificate", runGenKeypair);
  keypair.flag(
      required("organization", "name in the certificate and of the files: NAME.crt, NAME.key"));
  keypair.flag({.name = "ip", .kind = FlagKind::kText, .help = "IP address for the certificate"});

  auto& key = declare(gen, "key", "Generate a private key (Ed25519)", runGenKey);
  key.flag(required("name", "name of the file: NAME.key"));

  auto& csr = declare(gen, "csr", "Generate a certificate signing request", runGenCsr);
  csr.flag(required(
      "key", "file with the private key, such as FILE.key; the request is written to FILE.csr"));
  csr.flag(required("ip", "IP address for the certificate"));
  csr.flag(rolesFlag("os:admin", "roles of the holder"));

  auto& crt = declare(gen, "crt", "Sign a certificate signing request", runGenCrt);
  crt.flag(required("ca", "name of the CA's files: CA.crt and CA.key"));
  crt.flag(required("csr", "file with the signing request"));
  crt.flag(required("name", "name of the file: NAME.crt"));
  crt.flag(lifetime("24"));
  crt.flag(rolesFlag("", "roles of the holder (default: those of the request)"));
}

}  // namespace talos::talosctl
