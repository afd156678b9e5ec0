#include "talosctl/convert-k8s/convert-objects.h"

#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/memory/zeroize.h"

namespace talos::talosctl {
namespace {

using kube::find, kube::flagAt, kube::itemsAt, kube::Json, kube::textAt;

constexpr kj::StringPtr kKeyName = "service-account.key"_kj,
                        kSecretsVersion = "talos.dev/secrets-version"_kj,
                        kCheckpointOf = "checkpointer.alpha.coreos.com/checkpoint-of"_kj;

bool isOwnedBy(const Json& pod, kj::StringPtr kind) {
  for (auto owner : itemsAt(pod, {"metadata", "ownerReferences"})) {
    if (textAt(*owner, {"kind"}) == kind) return true;
  }
  return false;
}

}  // namespace

pki::Pem serviceAccountKeyOf(const Json& secret) {
  auto refuse = [](kj::StringPtr why) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("the Secret kube-system/kube-controller-manager ", why,
                 "; without the key that signed them, tokens of service accounts would end"));
  };
  auto encoded = textAt(secret, {"data", kKeyName});
  if (encoded.size() == 0) refuse(kj::str("has no ", kKeyName));
  auto decoded = kj::decodeBase64(encoded);
  KJ_DEFER(zeroize(decoded));
  if (decoded.hadErrors) refuse(kj::str("has a ", kKeyName, " that is not base64"));
  pki::Pem key(kj::heapString(decoded.asChars()));
  auto failure = kj::runCatchingExceptions([&] { pki::toPkcs8(key); });
  KJ_IF_MAYBE (e, failure) refuse(kj::str("has a ", kKeyName, " that is no key: ", messageOf(*e)));
  return key;
}

kj::String firstImageOf(const Json& daemonSet) {
  for (auto container : itemsAt(daemonSet, {"spec", "template", "spec", "containers"})) {
    auto image = textAt(*container, {"image"});
    if (image.size() > 0) return kj::str(image);
    break;
  }
  fail(ErrorKind::kFailedPrecondition,
       kj::str("the DaemonSet ", kube::nameOf(daemonSet), " names no image"));
}

bool isOnHostNetwork(const Json& daemonSet) {
  return flagAt(daemonSet, {"spec", "template", "spec", "hostNetwork"});
}

bool isOwnStaticPod(const Json& pod) {
  return isOwnedBy(pod, "Node") &&
         textAt(pod, {"metadata", "annotations", kSecretsVersion}).size() > 0;
}

bool isOfDaemonSet(const Json& pod) {
  return isOwnedBy(pod, "DaemonSet");
}

bool isCheckpoint(const Json& pod) {
  return find(pod, {"metadata", "annotations", kCheckpointOf}) != nullptr;
}

bool isPending(const Json& pod) {
  return textAt(pod, {"status", "phase"}) == "Pending";
}

kj::String conversionPatch(const TakenControlPlane& taken) {
  auto key = kj::encodeBase64(taken.serviceAccountKey.bytes()),
       crt = kj::encodeBase64(taken.aggregator.certificate.asBytes()),
       aggregatorKey = kj::encodeBase64(taken.aggregator.key.bytes());
  KJ_DEFER({
    zeroize(key);
    zeroize(aggregatorKey);
  });
  auto image = [&](size_t part) {
    Json text(std::string(taken.images[part].cStr()));
    return kj::str("{\"image\": ", kube::writeJson(text), "}");
  };
  return kj::str("{\"cluster\": {\"serviceAccount\": {\"key\": \"", key,
                 "\"}, \"aggregatorCA\": {\"crt\": \"", crt, "\", \"key\": \"", aggregatorKey,
                 "\"}, \"apiServer\": ", image(0), ", \"controllerManager\": ", image(1),
                 ", \"scheduler\": ", image(2), "}}");
}

}  // namespace talos::talosctl
