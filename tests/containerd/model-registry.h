// A registry of container images that has one image under every name but "absent". It is a process
// of its own, ends with its object, and notes what it was asked.
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
    // Of TLS: signs the server's certificate, and the clients' that are accepted.
    kj::Maybe<const pki::CertificateAndKey&> authority = nullptr;
    std::string layer = {};        // of the image: a tar; empty: it has none
    std::string entrypoint = {};   // of the image; empty: it has none
    std::string credentials = {};  // user:password that it wants; empty: none
    bool lies = false;             // what it sends for a digest is something else
    unsigned slowMs = 0;           // before each answer
    // Of the image, as cosign puts it there: what is signed, and its signature in base64.
    std::string signedPayload = {}, signature = {};
  };
  explicit ModelRegistry(Options options);
  ~ModelRegistry() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(ModelRegistry);

  // Of the image that one with these options has: sha256:….
  static std::string digestOf(const Options& options);
  std::string host() const;  // 127.0.0.1:port, [::1]:port
  std::string url() const;
  // Targets of the requests so far, those that failed included.
  std::vector<std::string> asked() const;

 private:
  Options options;
  unsigned port = 0;
  int pid = -1;
  std::string notes;
};

}  // namespace talos::test
