#include "common/kube/kube-access.h"

#include <kj/encoding.h>
#include <string.h>

#include "common/base/error.h"
#include "common/kube/json-yaml.h"
#include "common/memory/zeroize.h"
#include "common/net/ip.h"

namespace talos::kube {
namespace {

constexpr uint16_t kHttps = 443;
constexpr size_t kLongestHost = 253, kLongestPath = 1024;

// Returns true for a name of DNS, or an IPv4 address.
bool isHostName(kj::StringPtr text) {
  for (char c : text) {
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !(c >= '0' && c <= '9') && c != '-' && c != '.' && c != '_') return false;
  }
  return text.size() > 0 && text.size() <= kLongestHost;
}

// Returns true for a path of a URL without characters that need quotes anywhere.
bool isPlainPath(kj::StringPtr text) {
  for (char c : text) {
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    bool plain = letter || (c >= '0' && c <= '9') || strchr("-._~/%", c) != nullptr;
    if (!plain) return false;
  }
  return text.size() <= kLongestPath;
}

[[noreturn]] void refuseServer(kj::StringPtr url) {
  fail(ErrorKind::kInvalidArgument,
       kj::str("\"", url, "\" is not a valid server; use https://HOST or https://HOST:PORT"));
}

class AccessReader {
 public:
  AccessReader(const Json& document, kj::StringPtr file) : document(document), file(file) {}

  KubeAccess read(kj::StringPtr wanted) {
    auto name = wanted.size() > 0 ? wanted : textAt(document, {"current-context"});
    if (name.size() == 0) wrong("it has no current-context");
    auto& context = entry("contexts", "context", name);
    access.cluster = kj::str(textAt(context, {"cluster"}));
    readCluster(entry("clusters", "cluster", access.cluster));
    readUser(entry("users", "user", textAt(context, {"user"})));
    return kj::mv(access);
  }

 private:
  const Json& document;
  kj::StringPtr file;
  KubeAccess access;

  [[noreturn]] void wrong(kj::StringPtr error) {
    fail(ErrorKind::kInvalidArgument, kj::str(file, ": cannot use this kubeconfig: ", error));
  }

  const Json& entry(kj::StringPtr list, kj::StringPtr noun, kj::StringPtr name) {
    for (auto item : itemsAt(document, {list})) {
      if (textAt(*item, {"name"}) != name) continue;
      KJ_IF_MAYBE (content, find(*item, {noun})) {
        return *content;
      }
    }
    wrong(kj::str("it has no ", noun, " \"", name, "\""));
  }

  // Decodes the value of a key that ends in -data.
  kj::String data(const Json& from, kj::StringPtr key) {
    auto text = textAt(from, {key});
    auto decoded = kj::decodeBase64(text);
    KJ_DEFER(zeroize(decoded));
    if (decoded.hadErrors) wrong(kj::str(key, " is not valid base64"));
    return kj::heapString(decoded.asChars());
  }

  void readCluster(const Json& cluster) {
    auto server = kj::runCatchingExceptions([&]() {
      auto address = readServer(textAt(cluster, {"server"}));
      access.host = kj::mv(address.host);
      access.port = address.port;
    });
    KJ_IF_MAYBE (e, server) wrong(messageOf(*e));
    if (flagAt(cluster, {"insecure-skip-tls-verify"})) {
      wrong("insecure-skip-tls-verify is not supported");
    }
    access.authority = data(cluster, "certificate-authority-data");
    if (access.authority.size() == 0) wrong("its cluster lacks certificate-authority-data");
    auto name = textAt(cluster, {"tls-server-name"});
    access.tlsName = kj::str(name.size() > 0 ? name : kj::StringPtr(access.host));
  }

  void readUser(const Json& user) {
    access.certificate = data(user, "client-certificate-data");
    access.key = pki::Pem(data(user, "client-key-data"));
    access.token = pki::Pem(kj::str(textAt(user, {"token"})));
    bool pair = access.certificate.size() > 0 && access.key.bytes().size() > 0;
    if (!pair && access.token.bytes().size() == 0) {
      wrong("its user has neither client-certificate-data and client-key-data nor a token");
    }
  }
};

}  // namespace

kj::String KubeAccess::name() const {
  return hostInUrl(host, port);
}

kj::String ServerUrl::text() const {
  auto behind = port.map([](uint16_t number) { return kj::str(":", number); }).orDefault(kj::str());
  return kj::str("https://", hostInUrl(host), behind, path);
}

ServerUrl readServerUrl(kj::StringPtr url) {
  if (!url.startsWith("https://")) refuseServer(url);
  auto text = kj::str(url.slice(8));
  ServerUrl result{nullptr, nullptr, nullptr};
  KJ_IF_MAYBE (slash, text.findFirst('/')) {
    result.path = kj::str(text.slice(*slash));
    text = kj::heapString(text.slice(0, *slash));
    if (!isPlainPath(result.path)) refuseServer(url);
  }
  // In an IPv6 address only a colon after the bracket begins the port.
  auto hostEnd = text.findFirst(']').map([](size_t at) { return at + 1; }).orDefault(0);
  KJ_IF_MAYBE (colon, text.slice(hostEnd).findFirst(':')) {
    auto port = text.slice(hostEnd + *colon + 1).tryParseAs<uint16_t>().orDefault(0);
    if (port == 0) refuseServer(url);
    result.port = port;
    text = kj::heapString(text.slice(0, hostEnd + *colon));
  }
  if (text.startsWith("[") && text.endsWith("]")) {
    text = kj::heapString(text.slice(1, text.size() - 1));
    if (Ip::parse(text) == nullptr) refuseServer(url);
  } else if (!isHostName(text)) {
    refuseServer(url);
  }
  result.host = kj::mv(text);
  return result;
}

ServerAddress readServer(kj::StringPtr url) {
  auto read = readServerUrl(url);
  if (read.path.size() > 1) refuseServer(url);
  return {kj::mv(read.host), read.port.orDefault(kHttps)};
}

KubeAccess readAccess(kj::StringPtr text, kj::StringPtr file, kj::StringPtr context) {
  auto documents = readYaml(text, file);
  KJ_DEFER(for (auto& document : documents) wipe(document));
  if (documents.size() != 1 || !documents[0].is_object()) {
    fail(ErrorKind::kInvalidArgument, kj::str(file, ": not a kubeconfig"));
  }
  return AccessReader(documents[0], file).read(context);
}

}  // namespace talos::kube
