#include "common/kube/kubeconfig.h"

#include <kj/encoding.h>

#include "common/memory/secret-buffer.h"
#include "common/yaml/yaml-codec.h"

namespace talos::kube {
namespace {

class KubeconfigWriter {
 public:
  void line(kj::StringPtr text) {
    text_.add(text);
    text_.add("\n"_kj);
  }
  void value(kj::StringPtr key, kj::StringPtr text) {
    auto scalar = codec::yamlScalar(text);
    KJ_DEFER(zeroize(scalar.asArray()));
    entry(key, scalar);
  }
  void data(kj::StringPtr key, kj::StringPtr text) {
    auto encoded = kj::encodeBase64(text.asBytes());
    KJ_DEFER(zeroize(encoded.asArray()));
    entry(key, encoded);
  }
  pki::Pem finish() { return pki::Pem(text_.copyText()); }

 private:
  SecretBuffer text_;

  void entry(kj::StringPtr key, kj::StringPtr text) {
    text_.add(key);
    text_.add(" "_kj);
    line(text);
  }
};

void writeCredentials(KubeconfigWriter& out, const KubeconfigContent& content) {
  KJ_SWITCH_ONEOF(content.credentials) {
    KJ_CASE_ONEOF(pair, ClientPair) {
      out.data("    client-certificate-data:", pair.certificate);
      out.data("    client-key-data:", pair.key);
    }
    KJ_CASE_ONEOF(file, ClientPairFile) {
      out.value("    client-certificate:", file.path);
      out.value("    client-key:", file.path);
    }
    KJ_CASE_ONEOF(bearer, BearerToken) {
      out.value("    token:", bearer.token);
    }
  }
}

}  // namespace

pki::Pem writeKubeconfig(const KubeconfigContent& content) {
  KubeconfigWriter out;
  out.line("apiVersion: v1");
  out.line("kind: Config");
  out.line("clusters:");
  out.value("- name:", content.cluster);
  out.line("  cluster:");
  out.value("    server:", content.server);
  if (content.tlsName.size() > 0) out.value("    tls-server-name:", content.tlsName);
  out.data("    certificate-authority-data:", content.authority);
  out.line("users:");
  out.value("- name:", content.user);
  out.line("  user:");
  writeCredentials(out, content);
  out.line("contexts:");
  out.value("- name:", content.context);
  out.line("  context:");
  out.value("    cluster:", content.cluster);
  if (content.nameSpace.size() > 0) out.value("    namespace:", content.nameSpace);
  out.value("    user:", content.user);
  if (content.current) out.value("current-context:", content.context);
  return out.finish();
}

}  // namespace talos::kube
