#include "kubed/nodes/token-survey.h"

#include <kj/encoding.h>

#include <algorithm>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/memory/zeroize.h"

namespace talos::kubed {
namespace {

using kube::itemsAt;
using kube::Json;
using kube::textAt;

// Seconds. A kubelet looks at its volumes every 90 s or so.
constexpr int64_t kClocks = 10, kLooks = 300, kDay = 24 * 3600, kUsualLifetime = 3600;
constexpr size_t kMostHeader = 4096;

// 0: not known.
int64_t secondsOf(kj::StringPtr time) {
  KJ_IF_MAYBE (date, parseDate(time)) return (*date - kj::UNIX_EPOCH) / kj::SECONDS;
  return 0;
}

// Returns the longest lifetime that the pod requests; nullptr if it has no token.
kj::Maybe<int64_t> tokenLifetime(const Json& pod) {
  kj::Maybe<int64_t> longest;
  for (auto volume : itemsAt(pod, {"spec", "volumes"})) {
    for (auto source : itemsAt(*volume, {"projected", "sources"})) {
      KJ_IF_MAYBE (token, kube::find(*source, {"serviceAccountToken"})) {
        auto lifetime = kube::numberAt(*token, {"expirationSeconds"}, kUsualLifetime);
        longest = kj::max(longest.orDefault(0), kj::max(lifetime, int64_t(0)));
      }
    }
  }
  return longest;
}

bool hasEnded(const Json& pod) {
  auto phase = textAt(pod, {"status", "phase"});
  return phase == "Succeeded" || phase == "Failed";
}

}  // namespace

kj::Maybe<kj::String> keyIdOf(kj::StringPtr token) {
  KJ_IF_MAYBE (dot, token.findFirst('.')) {
    if (*dot > kMostHeader) return nullptr;
    // Converts from base64url: another alphabet, and no padding.
    auto padding = "==="_kj.slice(3 - (4 - *dot % 4) % 4);
    auto header = kj::str(token.slice(0, *dot), padding);
    for (auto& c : header) c = c == '-' ? '+' : c == '_' ? '/' : c;
    auto decoded = kj::decodeBase64(header);
    if (decoded.hadErrors) return nullptr;
    kj::Maybe<kj::String> id;
    kj::runCatchingExceptions([&] {
      auto json = kube::readJson(decoded.asChars(), "the header of a token");
      auto text = textAt(json, {"kid"});
      if (text.size() > 0) id = kj::str(text);
    });
    return id;
  }
  return nullptr;
}

void TokenSurvey::addSecret(const Json& secret) {
  auto encoded = textAt(secret, {"data", "token"});
  // The controller manager has not written it yet.
  if (encoded.size() == 0) return;
  auto token = kj::decodeBase64(encoded);
  KJ_DEFER(zeroize(token));
  auto text = kj::heapString(token.asChars());
  KJ_DEFER(zeroize(text.asArray().asBytes()));
  KJ_IF_MAYBE (id, keyIdOf(text)) {
    if (*id == key) return;
  }
  inSecrets.add(kube::nameOf(secret));
}

void TokenSurvey::addApiServer(const Json& pod) {
  for (auto container : itemsAt(pod, {"status", "containerStatuses"})) {
    started = kj::max(started, secondsOf(textAt(*container, {"state", "running", "startedAt"})));
  }
}

void TokenSurvey::addPod(const Json& pod) {
  if (hasEnded(pod)) return;
  KJ_IF_MAYBE (lifetime, tokenLifetime(pod)) {
    // Without a time of an API server it may have been started just now.
    auto since = started > 0 ? started : now;
    if (secondsOf(textAt(pod, {"metadata", "creationTimestamp"})) > since + kClocks) return;
    auto renewed = since + kj::min(*lifetime, kDay) + kLooks;
    if (renewed <= now) return;
    latest = kj::max(latest, renewed);
    inPods.add(kube::nameOf(pod));
  }
}

TokenSurvey::Holders TokenSurvey::first(const kj::Vector<kj::String>& names) {
  kj::Vector<kj::StringPtr> sorted;
  for (auto& name : names) sorted.add(name);
  std::sort(sorted.begin(), sorted.end());
  Holders holders;
  for (auto name : sorted) {
    if (holders.names.size() == kMostTokenHolders) break;
    holders.names.add(kj::str(name));
  }
  holders.others = static_cast<uint32_t>(names.size() - holders.names.size());
  return holders;
}

}  // namespace talos::kubed
