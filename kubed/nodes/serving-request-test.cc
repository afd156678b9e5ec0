#include "kubed/nodes/serving-request.h"

#include "common/base/error.h"
#include "common/tls/openssl.h"
#include "kubed/nodes/test-control-plane.h"

namespace talos::kubed {
namespace {

kj::Array<kj::String> texts(std::initializer_list<kj::StringPtr> list) {
  auto all = kj::heapArrayBuilder<kj::String>(list.size());
  for (auto text : list) all.add(kj::str(text));
  return all.finish();
}

kj::String ordinaryText() {
  return servingText("worker-1", texts({"worker-1"}), texts({"10.5.0.3", "fd00::3"}));
}

// Returns the error; the node and its addresses if the request is read.
std::string readOrError(const kube::Json& request) {
  std::string result;
  auto failure = kj::runCatchingExceptions([&] {
    auto read = readServingRequest(request);
    result = kj::str(read.node, " ", kj::strArray(read.addresses, " ")).cStr();
  });
  KJ_IF_MAYBE (e, failure) result = messageOf(*e).cStr();
  return result;
}
std::string readText(kj::StringPtr text) {
  return readOrError(servingRequest("csr-1", "worker-1", text));
}

// Returns a request with these extensions, whose values are as in OpenSSL's configuration.
kj::String textWith(std::initializer_list<std::pair<int, const char*>> extensions) {
  auto key = pki::readKey(pki::makeKey(pki::KeyType::kEcdsaP256));
  pki::Request request(X509_REQ_new());
  auto* subject = X509_REQ_get_subject_name(request.get());
  auto add = [&](int nid, const char* text) {
    // Go writes such texts as PrintableString.
    pki::check(
        X509_NAME_add_entry_by_NID(subject, nid, V_ASN1_PRINTABLESTRING,
                                   reinterpret_cast<const unsigned char*>(text), -1, -1, 0) == 1,
        "writing a subject");
  };
  add(NID_organizationName, "system:nodes");
  add(NID_commonName, "system:node:worker-1");
  STACK_OF(X509_EXTENSION)* list = sk_X509_EXTENSION_new_null();
  KJ_DEFER(sk_X509_EXTENSION_pop_free(list, X509_EXTENSION_free));
  for (auto& [nid, value] : extensions) {
    auto* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
    pki::check(extension != nullptr && sk_X509_EXTENSION_push(list, extension) > 0,
               "making an extension");
  }
  pki::check(X509_REQ_add_extensions(request.get(), list) == 1, "adding extensions");
  pki::check(X509_REQ_set_pubkey(request.get(), key.get()) == 1 &&
                 X509_REQ_sign(request.get(), key.get(), EVP_sha256()) > 0,
             "signing a request");
  return pki::writeRequest(request.get());
}

// Catches: a kubelet that never gets a certificate; one without key encipherment, as kubelets from
// 1.27 on request it.
TEST(ServingRequest, OfAKubeletIsRead) {
  EXPECT_EQ(readText(ordinaryText()), "worker-1 10.5.0.3 fd00::3");
  EXPECT_EQ(readText(textWith({{NID_subject_alt_name, "DNS:worker-1,IP:10.5.0.3"}})),
            "worker-1 10.5.0.3");
  auto request = servingRequest("csr-1", "worker-1", ordinaryText());
  EXPECT_TRUE(awaitsServingApproval(request));
  request["spec"]["usages"] = {"digital signature", "server auth"};
  EXPECT_EQ(readOrError(request), "worker-1 10.5.0.3 fd00::3");
  request["status"]["conditions"] = kube::Json::array({{{"type", "Denied"}}});
  EXPECT_FALSE(awaitsServingApproval(request));
  request["status"] = nullptr;
  request["spec"]["signerName"] = "kubernetes.io/kube-apiserver-client-kubelet";
  EXPECT_FALSE(awaitsServingApproval(request));
}

// Catches: a certificate for another node, for a user that is no node, or for another use.
TEST(ServingRequest, IsOfTheNodeThatMadeIt) {
  auto with = [](const char* path, kube::Json value) {
    auto request = servingRequest("csr-1", "worker-1", ordinaryText());
    request[kube::Json::json_pointer(path)] = kj::mv(value);
    return readOrError(request);
  };
  constexpr auto kNoNode = "it was not made by a user system:node:NAME of the group system:nodes";
  EXPECT_EQ(with("/spec/username", "system:serviceaccount:a:b"), kNoNode);
  EXPECT_EQ(with("/spec/username", "system:node:"), kNoNode);
  EXPECT_EQ(with("/spec/groups", {"system:authenticated"}), kNoNode);
  EXPECT_EQ(with("/spec/username", "system:node:worker-2"),
            "its subject is not the node worker-2, which made it");
  EXPECT_EQ(with("/spec/usages", {"digital signature", "server auth", "client auth"}),
            "it asks for more than the certificate of a server");
  EXPECT_EQ(with("/spec/usages", {"digital signature"}), "it is not for a certificate of a server");
  EXPECT_EQ(with("/spec/request", "!"), "its text is not base64");
  EXPECT_EQ(with("/spec/request", std::string(20'000, 'A')), "it has more than 16384 bytes");
}

// Catches: a certificate for a name that the node does not have, for an address of every node, or
// for no address, which nothing proves.
TEST(ServingRequest, HasNamesAndAddressesOfOneNode) {
  auto of = [](std::initializer_list<kj::StringPtr> names,
               std::initializer_list<kj::StringPtr> addresses, kj::StringPtr node = "worker-1") {
    return readOrError(
        servingRequest("csr-1", node, servingText(node, texts(names), texts(addresses))));
  };
  EXPECT_EQ(of({}, {"10.5.0.3"}), "worker-1 10.5.0.3");
  EXPECT_EQ(of({"worker-1", "kubernetes.default.svc"}, {"10.5.0.3"}),
            "it has the name kubernetes.default.svc, and the node is worker-1");
  EXPECT_EQ(of({"web.shop.svc"}, {"10.5.0.3"}, "web.shop.svc"),
            "the name web.shop.svc may be that of a Service");
  EXPECT_EQ(of({"web.shop.svc.example.org"}, {"10.5.0.3"}, "web.shop.svc.example.org"),
            "the name web.shop.svc.example.org may be that of a Service");
  EXPECT_EQ(of({"svc.example.org"}, {"10.5.0.3"}, "svc.example.org"), "svc.example.org 10.5.0.3");
  EXPECT_EQ(of({"worker-1"}, {}), "it has no address");
  for (auto address : {"127.0.0.1", "::1", "0.0.0.0", "224.0.0.1", "169.254.0.1", "fe80::1"}) {
    EXPECT_NE(of({}, {"10.5.0.3", address}).find("which no node has alone"), std::string::npos)
        << address;
  }
}

// Catches: names that kubed does not read, and the signer copies: of other kinds, in a second list,
// or in another extension; a name that fills the log and the memory of kubed.
TEST(ServingRequest, HasOneListOfServerNames) {
  constexpr auto kKinds =
      "the alternative names of the request are not only DNS names and addresses";
  EXPECT_EQ(readText(textWith({{NID_subject_alt_name, "IP:10.5.0.3,URI:https://a"}})), kKinds);
  EXPECT_EQ(readText(textWith({{NID_subject_alt_name, "IP:10.5.0.3,email:a@b.example"}})), kKinds);
  auto longName = "IP:10.5.0.3,DNS:" + std::string(254, 'a');
  EXPECT_EQ(readText(textWith({{NID_subject_alt_name, longName.c_str()}})),
            "it has a name of more than 253 characters");
  constexpr auto kExtensions =
      "the extensions of the request are something else than one list of alternative names";
  EXPECT_EQ(readText(textWith(
                {{NID_subject_alt_name, "IP:10.5.0.3"}, {NID_subject_alt_name, "IP:10.5.0.2"}})),
            "the extension X509v3 Subject Alternative Name is malformed, or is there twice");
  EXPECT_EQ(readText(textWith(
                {{NID_subject_alt_name, "IP:10.5.0.3"}, {NID_key_usage, "digitalSignature"}})),
            kExtensions);
  EXPECT_EQ(readText(textWith({{NID_key_usage, "digitalSignature"}})), kExtensions);
}

// Catches: an address that is the node's only by its own word; a node in whose name another machine
// answers; an address that is written in another way.
TEST(ServingProof, IsTheCertificateOfTheApiAtTheAddress) {
  auto now = kj::systemPreciseCalendarClock().now();
  auto machineCa = pki::makeAuthority({.organization = "talos"});
  auto shown = pki::issue(machineCa.certificate, machineCa.key,
                          {.dnsNames = texts({"Worker-1", "worker-1.example.org"}),
                           .addresses = texts({"10.5.0.3", "fd00::3"})});
  auto error = [&](kj::StringPtr node, kj::StringPtr address, kj::StringPtr authority) {
    auto found = servingProofError(node, address, shown.certificate, authority, now);
    return std::string(found.orDefault(kj::str("proven")).cStr());
  };
  EXPECT_EQ(error("worker-1", "10.5.0.3", machineCa.certificate), "proven");
  EXPECT_EQ(error("worker-1", "fd00:0::3", machineCa.certificate), "proven");
  EXPECT_EQ(error("worker-1", "10.5.0.4", machineCa.certificate),
            "the certificate of the API at 10.5.0.4 has the addresses 10.5.0.3, fd00::3 and not "
            "this one, because the node has not shown it to trustd");
  EXPECT_EQ(error("worker-2", "10.5.0.3", machineCa.certificate),
            "the certificate of the API at 10.5.0.3 is for Worker-1, worker-1.example.org, not for "
            "worker-2");
  auto stranger = pki::makeAuthority({.organization = "talos"});
  EXPECT_NE(error("worker-1", "10.5.0.3", stranger.certificate).find(" is not valid: "),
            std::string::npos);
}

}  // namespace
}  // namespace talos::kubed
