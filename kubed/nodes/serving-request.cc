#include "kubed/nodes/serving-request.h"

#include <kj/encoding.h>

#include <string_view>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/kube/node-proof.h"
#include "common/net/ip.h"
#include "common/text/ascii.h"
#include "common/tls/client-request.h"
#include "common/tls/signature.h"

namespace talos::kubed {
namespace {

using kube::kNodeGroup, kube::kNodeUser;

constexpr kj::StringPtr kServingSigner = "kubernetes.io/kubelet-serving"_kj;
constexpr size_t kEventDigits = 16;
constexpr size_t kLongestName = 253;

[[noreturn]] void refuse(kj::StringPtr error) {
  fail(ErrorKind::kInvalidArgument, error);
}

// Returns the name of the node that made the request: the API server has verified the requester.
kj::String requesterOf(const kube::Json& request) {
  auto user = kube::textAt(request, {"spec", "username"});
  bool inGroup = false;
  for (auto group : kube::itemsAt(request, {"spec", "groups"})) {
    inGroup = inGroup || *group == kNodeGroup.cStr();
  }
  if (!inGroup || !user.startsWith(kNodeUser) || user.size() == kNodeUser.size()) {
    refuse("it was not made by a user system:node:NAME of the group system:nodes");
  }
  return kj::str(user.slice(kNodeUser.size()));
}

void checkUsages(const kube::Json& request) {
  bool server = false, signature = false;
  for (auto usage : kube::itemsAt(request, {"spec", "usages"})) {
    if (*usage == "server auth") {
      server = true;
    } else if (*usage == "digital signature") {
      signature = true;
    } else if (*usage != "key encipherment") {
      refuse("it asks for more than the certificate of a server");
    }
  }
  if (!server || !signature) refuse("it is not for a certificate of a server");
}

kj::String requestTextOf(const kube::Json& request) {
  auto encoded = kube::textAt(request, {"spec", "request"});
  if (encoded.size() > kMostServingRequest) {
    refuse(kj::str("it has more than ", kMostServingRequest, " bytes"));
  }
  auto decoded = kj::decodeBase64(encoded);
  if (decoded.hadErrors) refuse("its text is not base64");
  return kj::heapString(decoded.asChars());
}

void checkName(kj::StringPtr name, kj::StringPtr node) {
  if (name.size() > kLongestName) {
    refuse(kj::str("it has a name of more than ", kLongestName, " characters"));
  }
  if (name != node) refuse(kj::str("it has the name ", name, ", and the node is ", node));
  // Pods call Services by NAME.NAMESPACE.svc, alone or before the DNS domain of the cluster.
  auto closed = kj::str(name, ".");
  if (std::string_view(closed.cStr(), closed.size()).find(".svc.") != std::string_view::npos) {
    refuse(kj::str("the name ", name, " may be that of a Service"));
  }
}

void checkAddress(kj::StringPtr text) {
  auto ip = Ip::require(text).unmapped();
  if (!ip.isUnicast() || ip.isLoopback() || ip.isLinkLocal()) {
    refuse(kj::str("it has the address ", text, ", which no node has alone"));
  }
}

bool isAmong(kj::ArrayPtr<const kj::String> addresses, kj::StringPtr address) {
  auto wanted = Ip::require(address).unmapped();
  for (auto& one : addresses) {
    KJ_IF_MAYBE (ip, Ip::parse(one)) {
      if (ip->unmapped() == wanted) return true;
    }
  }
  return false;
}

}  // namespace

kj::String servingRequests() {
  return kj::str("spec.signerName=", kServingSigner);
}

bool awaitsServingApproval(const kube::Json& request) {
  return kube::textAt(request, {"spec", "signerName"}) == kServingSigner &&
         kube::itemsAt(request, {"status", "conditions"}).empty() &&
         kube::textAt(request, {"status", "certificate"}).size() == 0;
}

ServingRequest ServingRequest::clone() const {
  ServingRequest copy{.node = kj::str(node), .addresses = {}};
  for (auto& address : addresses) copy.addresses.add(kj::str(address));
  return copy;
}

ServingRequest readServingRequest(const kube::Json& request) {
  ServingRequest result{.node = requesterOf(request), .addresses = {}};
  checkUsages(request);
  auto text = requestTextOf(request);
  auto info = pki::inspectRequest(text);
  bool own = info.commonName == kj::str(kNodeUser, result.node) && info.organizations.size() == 1 &&
             info.organizations[0] == kNodeGroup;
  if (!own) refuse(kj::str("its subject is not the node ", result.node, ", which made it"));
  pki::requireOneReading(text);
  pki::requireServerNames(text);
  for (auto& name : info.dnsNames) checkName(name, result.node);
  if (info.addresses.empty()) refuse("it has no address");
  if (info.addresses.size() > kMostServingAddresses) {
    refuse(kj::str("it has more than ", kMostServingAddresses, " addresses"));
  }
  for (auto& address : info.addresses) checkAddress(address);
  result.addresses = kj::mv(info.addresses);
  return result;
}

kj::Maybe<kj::String> servingProofError(kj::StringPtr node, kj::StringPtr address,
                                        kj::StringPtr shown, kj::StringPtr machineCa,
                                        kj::Date now) {
  KJ_IF_MAYBE (error, pki::serverCertificateError(shown, machineCa, now)) {
    return kj::str("the certificate of the API at ", address, " is not valid: ", *error);
  }
  auto info = pki::inspect(shown);
  bool named = false;
  for (auto& name : info.dnsNames) named = named || lowerCase(name) == node;
  if (!named) {
    return kj::str("the certificate of the API at ", address, " is for ",
                   kj::strArray(info.dnsNames, ", "), ", not for ", node);
  }
  if (!isAmong(info.addresses, address)) {
    return kj::str("the certificate of the API at ", address, " has the addresses ",
                   kj::strArray(info.addresses, ", "),
                   " and not this one, because the node has not shown it to trustd");
  }
  return nullptr;
}

kube::Json leftOpenEvent(kj::StringPtr name, kj::StringPtr uid, kj::StringPtr message,
                         kj::Date now) {
  auto time = dateText(now);
  auto digest = pki::sha256Of(kj::str(name, "\n", message).asBytes());
  auto id = kj::str(name, ".", digest.slice(digest.size() - kEventDigits));
  return {{"apiVersion", "v1"},
          {"kind", "Event"},
          {"metadata", {{"name", id.cStr()}, {"namespace", "default"}}},
          {"involvedObject",
           {{"apiVersion", "certificates.k8s.io/v1"},
            {"kind", "CertificateSigningRequest"},
            {"name", name.cStr()},
            {"uid", uid.cStr()}}},
          {"reason", "NotApproved"},
          {"message", message.cStr()},
          {"type", "Warning"},
          {"source", {{"component", "talos-kubed"}}},
          {"firstTimestamp", time.cStr()},
          {"lastTimestamp", time.cStr()},
          {"count", 1}};
}

}  // namespace talos::kubed
