// Service account tokens that another key than the current one may have signed (tokensOfOtherKeys
// of rpc/kubernetes.capnp), by the objects of Kubernetes. Pure; accepts foreign bytes.
//
// A token in a Secret names its key. Tokens of pods are visible only to their kubelets: a pod that
// was created after all API servers had been started has only tokens that they signed; so does an
// older pod whose kubelet has had to renew them since. A kubelet renews a token after four fifths
// of the lifetime that the pod requests, and after a day at the latest. Times of API servers are
// those of their nodes, so a pod counts as older for some seconds more.
#pragma once

#include "common/kube/json.h"

namespace talos::kubed {

constexpr unsigned kMostTokenHolders = 20;  // number of holders that are named

// Returns the id of the key that signed a token (JWS, RFC 7515: `kid` of its header); nullptr if
// the token has none.
kj::Maybe<kj::String> keyIdOf(kj::StringPtr token);

class TokenSurvey {
 public:
  // `now`: s since 1970.
  TokenSurvey(kj::StringPtr key, int64_t now) : key(kj::str(key)), now(now) {}

  void addSecret(const kube::Json& secret);  // of the type kubernetes.io/service-account-token
  void addApiServer(const kube::Json& pod);  // call for all of them before addPod()
  void addPod(const kube::Json& pod);

  struct Holders {
    kj::Vector<kj::String> names;  // the first ones, namespace/name, sorted
    uint32_t others = 0;
  };
  Holders secrets() const { return first(inSecrets); }
  Holders pods() const { return first(inPods); }
  int64_t until() const { return latest; }  // 0 without pods

 private:
  kj::String key;
  int64_t now, started = 0, latest = 0;
  kj::Vector<kj::String> inSecrets, inPods;

  static Holders first(const kj::Vector<kj::String>& names);
};

}  // namespace talos::kubed
