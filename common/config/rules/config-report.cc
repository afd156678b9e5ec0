// Problems with their places, and the checks that all sections share.

#include <set>

#include "common/base/error.h"
#include "common/config/kubernetes/endpoint.h"
#include "common/config/rules/config-check.h"
#include "common/net/ip.h"
#include "common/net/text-values.h"
#include "common/text/foreign-text.h"
#include "common/tls/authorities.h"
#include "common/tls/pki.h"
#include "common/tls/public-key.h"

namespace talos::config {

namespace {

// Limits below which a secret can be guessed by trying, or was made up by a person.
constexpr size_t kShortSecret = 16, kFewCharacters = 6;
constexpr size_t kAescbcKeyBytes[] = {32, 24, 16}, kSecretboxKeyBytes = 32;

bool isWithin(kj::StringPtr path, kj::StringPtr ancestor) {
  if (ancestor.size() == 0 || !path.startsWith(ancestor)) return false;
  return path.size() == ancestor.size() || path[ancestor.size()] == '.' ||
         path[ancestor.size()] == '[';
}

}  // namespace

kj::String keyPath(kj::StringPtr parent, kj::StringPtr key) {
  bool simple = key.size() > 0;
  for (char c : key)
    simple = simple && c != '.' && c != '[' && c != ' ' && static_cast<unsigned char>(c) >= 0x20;
  return simple ? kj::str(parent, ".", key) : kj::str(parent, "[", jsonString(key), "]");
}

bool Report::isRefused(kj::StringPtr path) const {
  for (auto& earlier : problems.asPtr().slice(0, decoders)) {
    if (earlier.severity == Problem::Severity::kError && isWithin(path, earlier.path)) return true;
  }
  return false;
}

bool Report::isWhollyRead(kj::StringPtr path) const {
  for (auto& earlier : problems.asPtr().slice(0, decoders)) {
    if (earlier.severity == Problem::Severity::kError && isWithin(earlier.path, path)) return false;
  }
  return isRead(path);
}

Report::Key keysOf(const Report& report, MachineType type) {
  if (isControlPlane(type)) return Report::Key::kNeeded;
  return report.isRead("machine.type") ? Report::Key::kUnwanted : Report::Key::kOptional;
}

void Report::add(Problem::Severity severity, kj::StringPtr path, kj::String message,
                 kj::StringPtr hint) {
  if (isRefused(path)) return;
  if (counts[static_cast<int>(severity)]++ >= codec::kMaxProblems) return;
  auto place = places.find(path);
  auto& problem = problems.add();
  problem.severity = severity;
  problem.file = kj::str(file);
  problem.line = place.line;
  problem.column = place.column;
  problem.path = kj::str(path);
  problem.message = kj::mv(message);
  problem.hint = kj::str(hint);
}

void Report::error(kj::StringPtr path, kj::String message, kj::StringPtr hint) {
  add(Problem::Severity::kError, path, kj::mv(message), hint);
}

void Report::laterError(kj::StringPtr path, kj::String message, kj::StringPtr hint) {
  auto severity = of == Of::kKeptConfig ? Problem::Severity::kWarning : Problem::Severity::kError;
  add(severity, path, kj::mv(message), hint);
}

void Report::warn(kj::StringPtr path, kj::String message, kj::StringPtr hint) {
  add(Problem::Severity::kWarning, path, kj::mv(message), hint);
}

void Report::cidr(kj::StringPtr path, kj::StringPtr text) {
  if (Prefix::parse(text) != nullptr) return;
  bool address = Ip::parse(text) != nullptr;
  error(path, kj::str("\"", text, "\" is not a valid address with a prefix length"),
        address ? kj::str("for example ", text, text.findFirst(':') == nullptr ? "/24" : "/64")
                : kj::str("for example 10.5.0.2/24"));
}

void Report::subnets(kj::StringPtr path, capnp::List<capnp::Text>::Reader list) {
  size_t i = 0;
  for (kj::StringPtr text : list) {
    cidr(kj::str(path, "[", i++, "]"), text.startsWith("!") ? text.slice(1) : text);
  }
}

void Report::hosts(kj::StringPtr path, capnp::List<capnp::Text>::Reader names) {
  size_t i = 0;
  for (auto name : names) {
    auto place = kj::str(path, "[", i++, "]");
    if (!isHost(name, true))
      error(place, kj::str("\"", name, "\" is neither an IP address nor a DNS name"));
  }
}

void Report::url(kj::StringPtr path, kj::StringPtr text) {
  auto result = parseEndpoint(text);
  if (result.problem.size() > 0) {
    error(path, kj::mv(result.problem), "for example https://example.org/path");
  } else if (result.value.scheme != "http" && result.value.scheme != "https") {
    error(path, kj::str("\"", text, "\": the scheme must be http or https"));
  }
}

void Report::duration(kj::StringPtr path, kj::StringPtr text, kj::Duration shortest,
                      kj::StringPtr tooShort, kj::StringPtr hint) {
  if (text.size() == 0) return;
  KJ_IF_MAYBE (duration, parseDuration(text)) {
    if (*duration < shortest) error(path, kj::str(tooShort), hint);
  } else {
    error(path, kj::str("\"", text, "\" is not a duration"), hint);
  }
}

void Report::image(kj::StringPtr path, kj::StringPtr text) {
  if (text.size() == 0 || isVisible(text)) return;
  laterError(path, kj::str(jsonString(text), " is not a valid name of an image"),
             "for example registry.example.org/team/app:v1");
}

void Report::absolutePath(kj::StringPtr path, kj::StringPtr text) {
  if (text.size() == 0 && !has(path)) return;
  if (!isCleanPath(text)) {
    error(path, kj::str("\"", text, "\" is not an absolute path"),
          "it must begin with / and have no . or .. in it");
  }
}

void Report::authority(kj::StringPtr path, CertificateAndKey::Reader pair, Key wanted) {
  if (pair.getCrt().size() == 0) {
    if (pair.getKey().size() > 0)
      error(kj::str(path, ".crt"), kj::str("certificate is missing: there is only a key"));
    return;
  }
  kj::Maybe<pki::ParsedCertificate> certificate;
  auto thrown = kj::runCatchingExceptions([&]() {
    auto& parsed = certificate.emplace(kj::heapString(pair.getCrt().asChars()));
    if (!parsed.info().authority) {
      error(kj::str(path, ".crt"), kj::str("not a CA certificate (CA:true is missing)"));
    }
  });
  KJ_IF_MAYBE (e, thrown) {
    error(kj::str(path, ".crt"), messageOf(*e), "use the base64 of a certificate in PEM");
    return;
  }
  if (wanted == Key::kUnwanted && pair.getKey().size() > 0) {
    warn(kj::str(path, ".key"),
         kj::str("a worker does not need the private key of a CA, and whoever has this machine "
                 "could issue certificates of the cluster with it"),
         "remove it");
  }
  if (pair.getKey().size() == 0) {
    if (wanted == Key::kNeeded)
      error(kj::str(path, ".key"), kj::str("key is missing; a control-plane node needs it"));
    return;
  }
  pki::Pem key(kj::heapString(pair.getKey().asChars()));
  KJ_IF_MAYBE (e,
               kj::runCatchingExceptions([&]() { KJ_ASSERT_NONNULL(certificate).checkKey(key); })) {
    error(kj::str(path, ".key"), messageOf(*e));
  }
}

void Report::accepted(kj::StringPtr path, capnp::List<AcceptedCa>::Reader list) {
  for (auto i : kj::indices(list)) {
    auto at = kj::str(path, "[", i, "].crt");
    auto text = kj::heapString(list[i].getCrt().asChars());
    auto found = pki::certificatesIn(text);
    if (found.empty()) found.add(kj::mv(text));  // the reader reports what it found instead
    for (auto& certificate : found) {
      auto thrown = kj::runCatchingExceptions([&]() {
        if (!pki::inspect(certificate).authority) {
          error(at, kj::str("not a CA certificate (CA:true is missing)"));
        }
      });
      KJ_IF_MAYBE (e, thrown) {
        error(at, messageOf(*e), "use the base64 of a certificate in PEM");
      }
    }
  }
}

void Report::accepted(kj::StringPtr path, capnp::List<AcceptedKey>::Reader list) {
  for (auto i : kj::indices(list)) {
    auto text = kj::heapString(list[i].getKey().asChars());
    auto found = pki::publicKeysIn(text);
    if (found.empty()) found.add(kj::mv(text));  // the reader reports what it found instead
    for (auto& key : found) {
      KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { pki::tokenKeyId(key); })) {
        error(kj::str(path, "[", i, "].key"), messageOf(*e),
              "use the base64 of a public key in PEM, of RSA or ECDSA");
      }
    }
  }
}

void Report::strength(kj::StringPtr path, kj::StringPtr secret) {
  std::set<char> characters(secret.begin(), secret.end());
  if (secret.size() >= kShortSecret && characters.size() >= kFewCharacters) return;
  warn(path, kj::str("weak: it could be guessed"), kTokenForm);
}

void Report::aescbcKey(kj::StringPtr path, kj::StringPtr base64) {
  bool good = base64.size() == 0;
  for (auto size : kAescbcKeyBytes) good = good || isKey(base64, size);
  if (!good) error(path, kj::str("not valid base64 of 32, 24 or 16 bytes"), kEncryptionKeyForm);
}

void Report::secretboxKey(kj::StringPtr path, kj::StringPtr base64) {
  if (base64.size() > 0) acceptedKey(path, base64);
}

void Report::acceptedKey(kj::StringPtr path, kj::StringPtr base64) {
  if (!isKey(base64, kSecretboxKeyBytes)) {
    error(path, kj::str("not valid base64 of ", kSecretboxKeyBytes, " bytes"), kEncryptionKeyForm);
  }
}

void Report::arguments(kj::StringPtr path, capnp::List<StringPair>::Reader arguments,
                       kj::ArrayPtr<const kj::StringPtr> taken) {
  for (auto argument : arguments) {
    auto name = argument.getKey();
    auto place = keyPath(path, name);
    if (name.size() == 0) {
      error(path, kj::str("name of an argument is empty"));
    } else if (name.startsWith("-")) {
      error(place, kj::str("write the name of the argument without the leading dashes"));
    }
    for (auto other : taken) {
      if (name == other) error(place, kj::str("the node sets this argument itself"), "remove it");
    }
  }
}

}  // namespace talos::config
