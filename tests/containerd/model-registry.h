// A registry of container images that has one image under every name but "absent". It is a separate
// process, ends with its object, and records its requests.
#pragma once

#include <kj/common.h>

#include <memory>
#include <string>
#include <vector>

#include "common/tls/pki.h"

namespace talos::test {

class ModelRegistry {
 public:
  enum class Kind { kPlain, kTls, kMutualTls };
  struct Options {
    Kind kind = Kind::kPlain;
    std::string root = "/v2";  // where its interface begins
    std::string address = "127.0.0.1";
    // For TLS: the CA that signs the server's certificate, and those of accepted clients.
    kj::Maybe<const pki::CertificateAndKey&> authority = nullptr;
    std::string layer = {};        // of the image: a tar; empty: no layer
    std::string entrypoint = {};   // of the image; empty: no entrypoint
    std::string credentials = {};  // user:password that it requires; empty: no credentials
    bool lies = false;             // true: it sends wrong content for a digest
    unsigned slowMs = 0;           // before each answer
    // For the image, as cosign stores them in the registry: the signed text, and its signature in
    // base64.
    std::string signedPayload = {}, signature = {};
  };
  explicit ModelRegistry(Options options);
  ~ModelRegistry() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(ModelRegistry);

  // Returns the digest of the image that a registry with these options has: sha256:….
  static std::string digestOf(const Options& options);
  std::string host() const;  // 127.0.0.1:port, [::1]:port
  std::string url() const;
  // Returns the targets of the requests so far, including failed ones.
  std::vector<std::string> asked() const;

 private:
  Options options;
  unsigned port = 0;
  int pid = -1;
  std::string notes;
};

}  // namespace talos::test
