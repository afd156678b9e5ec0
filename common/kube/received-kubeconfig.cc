#include "common/kube/received-kubeconfig.h"

#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/kube/json-yaml.h"
#include "common/memory/zeroize.h"
#include "common/text/foreign-text.h"
#include "common/text/plain-text.h"

namespace talos::kube {
namespace {

constexpr size_t kLargestText = 1u << 20;
constexpr size_t kLongestName = 253, kLongestNamespace = 63, kLongestShownKey = 64;

bool isNamespace(kj::StringPtr name) {
  for (char c : name) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-')) return false;
  }
  return name.size() > 0 && name.size() <= kLongestNamespace;
}

kj::String shown(kj::StringPtr key) {
  return fieldText(key, kLongestShownKey);
}

class ReceivedReader {
 public:
  ReceivedReader(const Json& document, kj::StringPtr file) : document(document), file(file) {}

  ReceivedKubeconfig read() {
    allow(document, "", {"apiVersion", "kind", "clusters", "users", "contexts", "current-context"});
    exactly("apiVersion", "v1");
    exactly("kind", "Config");
    readCluster(only("clusters", "cluster", result.cluster));
    readUser(only("users", "user", result.user));
    readContext(only("contexts", "context", result.context));
    return kj::mv(result);
  }

 private:
  const Json& document;
  kj::StringPtr file;
  ReceivedKubeconfig result;

  [[noreturn]] void refuse(kj::StringPtr key, kj::StringPtr error) {
    fail(ErrorKind::kInvalidArgument,
         kj::str(file, " is refused: ", key, key.size() > 0 ? ": " : "", error));
  }

  void allow(const Json& object, kj::StringPtr path, std::initializer_list<kj::StringPtr> keys) {
    if (!object.is_object()) refuse(path, "is not a mapping");
    for (auto& member : object.items()) {
      bool known = false;
      for (auto key : keys) known = known || key == toPtr(member.key());
      if (known) continue;
      refuse(kj::str(path, path.size() > 0 ? "." : "", shown(toPtr(member.key()))),
             "a node must not set this key; a kubeconfig from a node has the server, its CA, a "
             "certificate with its key, and names");
    }
  }

  kj::StringPtr required(const Json& object, kj::StringPtr path, kj::StringPtr key) {
    auto text = textAt(object, {key});
    if (text.size() == 0) refuse(kj::str(path, ".", key), "is missing or not a text");
    return text;
  }

  void exactly(kj::StringPtr key, kj::StringPtr value) {
    if (textAt(document, {key}) != value) refuse(key, kj::str("must be ", value));
  }

  kj::String name(const Json& object, kj::StringPtr path, kj::StringPtr key) {
    auto text = required(object, path, key);
    if (text.size() > kLongestName || !isPlainText(text)) {
      refuse(kj::str(path, ".", key),
             "is not a valid name; it must have 1 to 253 bytes and no control characters");
    }
    return kj::str(text);
  }

  // The content of the one entry of this list.
  const Json& only(kj::StringPtr list, kj::StringPtr content, kj::String& itsName) {
    auto items = itemsAt(document, {list});
    if (items.size() != 1) refuse(list, "must have exactly one entry");
    auto path = kj::str(list, "[0]");
    allow(*items[0], path, {"name", content});
    itsName = name(*items[0], path, "name");
    KJ_IF_MAYBE (found, find(*items[0], {content})) return *found;
    refuse(kj::str(path, ".", content), "is missing");
  }

  kj::String decoded(const Json& object, kj::StringPtr path, kj::StringPtr key) {
    auto bytes = kj::decodeBase64(required(object, path, key));
    KJ_DEFER(zeroize(bytes));
    if (bytes.hadErrors) refuse(kj::str(path, ".", key), "is not valid base64");
    return kj::heapString(bytes.asChars());
  }

  void readCluster(const Json& cluster) {
    constexpr kj::StringPtr kPath = "clusters[0].cluster"_kj;
    allow(cluster, kPath, {"server", "certificate-authority-data"});
    auto given = required(cluster, kPath, "server");
    auto read = [&]() { result.server = readServerUrl(given).text(); };
    if (kj::runCatchingExceptions(read) != nullptr) {
      refuse(kj::str(kPath, ".server"),
             "is not a valid server; use https://HOST:PORT, or https://HOST:PORT/PATH of letters, "
             "digits and -._~%");
    }
    result.authority = decoded(cluster, kPath, "certificate-authority-data");
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { pki::inspect(result.authority); })) {
      refuse(kj::str(kPath, ".certificate-authority-data"), messageOf(*e));
    }
  }

  void readUser(const Json& user) {
    constexpr kj::StringPtr kPath = "users[0].user"_kj;
    allow(user, kPath, {"client-certificate-data", "client-key-data"});
    result.certificate = decoded(user, kPath, "client-certificate-data");
    result.key = pki::Pem(decoded(user, kPath, "client-key-data"));
    auto check = [&]() { pki::checkPair(result.certificate, result.key); };
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(check)) refuse(kPath, messageOf(*e));
  }

  void readContext(const Json& context) {
    constexpr kj::StringPtr kPath = "contexts[0].context"_kj;
    allow(context, kPath, {"cluster", "user", "namespace"});
    auto same = [&](kj::StringPtr key, kj::StringPtr wanted) {
      if (textAt(context, {key}) != wanted) {
        refuse(kj::str(kPath, ".", key), kj::str("must be \"", wanted, "\""));
      }
    };
    same("cluster", result.cluster);
    same("user", result.user);
    if (textAt(document, {"current-context"}) != result.context) {
      refuse("current-context", kj::str("must be \"", result.context, "\""));
    }
    if (find(context, {"namespace"}) == nullptr) return;
    result.nameSpace = kj::str(textAt(context, {"namespace"}));
    if (!isNamespace(result.nameSpace)) {
      refuse(kj::str(kPath, ".namespace"), "is not a valid name of a namespace");
    }
  }
};

}  // namespace

KubeconfigContent ReceivedKubeconfig::content() const {
  return {.cluster = cluster,
          .server = server,
          .tlsName = tlsName,
          .authority = authority,
          .user = user,
          .credentials = ClientPair{certificate, key},
          .context = context,
          .nameSpace = nameSpace};
}

ReceivedKubeconfig ReceivedKubeconfig::clone() const {
  return {.cluster = kj::str(cluster),
          .user = kj::str(user),
          .context = kj::str(context),
          .nameSpace = kj::str(nameSpace),
          .server = kj::str(server),
          .tlsName = kj::str(tlsName),
          .authority = kj::str(authority),
          .certificate = kj::str(certificate),
          .key = key.clone()};
}

KubeAccess ReceivedKubeconfig::access() const {
  auto address = readServer(server);
  auto name = kj::str(tlsName.size() > 0 ? tlsName : address.host);
  return {.cluster = kj::str(cluster),
          .host = kj::mv(address.host),
          .port = address.port,
          .authority = kj::str(authority),
          .tlsName = kj::mv(name),
          .certificate = kj::str(certificate),
          .key = key.clone(),
          .token = {}};
}

ReceivedKubeconfig readReceivedKubeconfig(kj::StringPtr text, kj::StringPtr file) {
  auto refuse = [&](kj::StringPtr error) {
    fail(ErrorKind::kInvalidArgument, kj::str(file, " is refused: ", error));
  };
  if (text.size() > kLargestText) refuse(kj::str("it is larger than ", kLargestText, " bytes"));
  auto documents = readYaml(text, file);
  KJ_DEFER(for (auto& document : documents) wipe(document));
  if (documents.size() != 1) refuse("it must have exactly one document");
  return ReceivedReader(documents[0], file).read();
}

}  // namespace talos::kube
