#include "registryd/cache-request.h"

#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/image-cache/cache-layout.h"
#include "common/kube/json.h"

namespace talos::registryd {
namespace {

using Kind = CacheRequest::Kind;

constexpr kj::StringPtr kVersion = "/v2/"_kj, kRegistry = "ns="_kj;
constexpr kj::StringPtr kMediaTypes[] = {
    "application/vnd.oci.image.index.v1+json"_kj,
    "application/vnd.oci.image.manifest.v1+json"_kj,
    "application/vnd.docker.distribution.manifest.list.v2+json"_kj,
    "application/vnd.docker.distribution.manifest.v2+json"_kj,
};

// Returns the last "/<word>/" in the path: names of images may have parts that are called so.
kj::Maybe<size_t> lastOf(kj::StringPtr path, kj::StringPtr word) {
  for (size_t i = path.size(); i-- > 0;) {
    if (path.slice(i).startsWith(word)) return i;
  }
  return nullptr;
}

// Returns the value of the parameter ns, decoded.
kj::Maybe<kj::String> registryIn(kj::StringPtr query) {
  size_t begin = 0;
  for (size_t i = 0; i <= query.size(); ++i) {
    if (i < query.size() && query[i] != '&') continue;
    auto parameter = kj::heapString(query.slice(begin, i));
    begin = i + 1;
    if (!parameter.startsWith(kRegistry)) continue;
    auto decoded = kj::decodeUriComponent(parameter.slice(kRegistry.size()));
    if (decoded.hadErrors || !imagecache::isRegistryName(decoded)) return nullptr;
    return kj::str(kj::StringPtr(decoded));
  }
  return nullptr;
}

kj::Maybe<CacheRequest> manifestRequest(kj::StringPtr name, kj::StringPtr reference,
                                        kj::StringPtr query) {
  if (!imagecache::isDigest(reference) && !imagecache::isTag(reference)) return nullptr;
  KJ_IF_MAYBE (registry, registryIn(query)) {
    return CacheRequest{Kind::kManifest, imagecache::manifestPath(*registry, name, reference)};
  }
  return nullptr;
}

}  // namespace

kj::Maybe<CacheRequest> readRequest(kj::StringPtr target) {
  if (target.size() > kLongestTarget) return nullptr;
  auto mark = target.findFirst('?').orDefault(target.size());
  auto path = kj::heapString(target.slice(0, mark));
  auto query = kj::heapString(target.slice(kj::min(mark + 1, target.size())));
  if (path == "/healthz") return CacheRequest{Kind::kHealth, kj::String()};
  if (path == "/v2" || path == kVersion) return CacheRequest{Kind::kBase, kj::String()};
  if (!path.startsWith(kVersion)) return nullptr;
  for (auto kind : {Kind::kManifest, Kind::kBlob}) {
    auto word = kind == Kind::kManifest ? "/manifests/"_kj : "/blobs/"_kj;
    KJ_IF_MAYBE (at, lastOf(path, word)) {
      if (*at < kVersion.size()) continue;
      auto name = kj::heapString(path.slice(kVersion.size(), *at));
      auto reference = kj::heapString(path.slice(*at + word.size()));
      if (!imagecache::isRepositoryName(name)) continue;
      if (kind == Kind::kManifest) return manifestRequest(name, reference, query);
      if (!imagecache::isDigest(reference)) return nullptr;
      return CacheRequest{kind, imagecache::blobPath(reference)};
    }
  }
  return nullptr;
}

kj::Maybe<SentRange> readRange(kj::StringPtr text, uint64_t size) {
  constexpr kj::StringPtr kUnit = "bytes="_kj;
  if (!text.startsWith(kUnit)) return nullptr;
  auto range = text.slice(kUnit.size());
  auto numberIn = [](kj::ArrayPtr<const char> digits) -> kj::Maybe<uint64_t> {
    if (digits.size() == 0 || digits.size() > 18) return nullptr;
    uint64_t value = 0;
    for (char c : digits) {
      if (c < '0' || c > '9') return nullptr;
      value = value * 10 + static_cast<unsigned>(c - '0');
    }
    return value;
  };
  KJ_IF_MAYBE (dash, range.findFirst('-')) {
    KJ_IF_MAYBE (begin, numberIn(range.slice(0, *dash))) {
      if (*begin >= size) return nullptr;
      auto last = range.slice(*dash + 1);
      if (last.size() == 0) return SentRange{*begin, size};
      KJ_IF_MAYBE (end, numberIn(last)) {
        if (*end < *begin) return nullptr;
        return SentRange{*begin, kj::min(*end + 1, size)};
      }
    }
  }
  return nullptr;
}

kj::StringPtr mediaTypeOf(kj::ArrayPtr<const char> manifest) {
  auto value = kube::readJson(manifest, "the manifest");
  auto named = kube::textAt(value, {"mediaType"});
  for (auto type : kMediaTypes) {
    if (named == type) return type;
  }
  bool isIndex = kube::find(value, {"manifests"}) != nullptr;
  if (!isIndex && kube::find(value, {"layers"}) == nullptr) {
    fail(ErrorKind::kInvalidArgument, "the manifest has neither layers nor manifests");
  }
  return kMediaTypes[isIndex ? 0 : 1];
}

}  // namespace talos::registryd
