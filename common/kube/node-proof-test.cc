#include "common/kube/node-proof.h"

#include <gtest/gtest.h>
#include <kj/encoding.h>

#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/tls/openssl.h"

namespace talos::kube {
namespace {

struct NodeProof : public testing::Test {
  kj::Date now = kj::systemPreciseCalendarClock().now();
  pki::CertificateAndKey machineCa = pki::makeAuthority({.organization = "talos"});
  pki::Pem kubeletKey = pki::makeKey(pki::KeyType::kEcdsaP256);

  ~NodeProof() noexcept override {}
  pki::CertificateAndKey certificateOf(kj::StringPtr name,
                                       const pki::CertificateAndKey& authority) {
    return pki::issue(
        authority.certificate, authority.key,
        {.dnsNames = kj::arr(kj::str(name)), .addresses = kj::arr(kj::str("10.5.0.3"))});
  }
  kj::String requestFor(kj::StringPtr user, kj::StringPtr group = kNodeGroup) {
    return pki::makeRequest(kubeletKey,
                            {.commonName = user, .organizations = kj::arr(kj::str(group))});
  }
  // Returns a request with these attributes in this order; `set` -1: all in one RDN.
  kj::String requestOf(const std::vector<std::pair<int, const char*>>& subject, int set = 0,
                       int type = V_ASN1_UTF8STRING) {
    auto key = pki::readKey(kubeletKey);
    pki::Request request(X509_REQ_new());
    auto* name = X509_REQ_get_subject_name(request.get());
    for (size_t i = 0; i < subject.size(); ++i) {
      auto* text = reinterpret_cast<const unsigned char*>(subject[i].second);
      pki::check(X509_NAME_add_entry_by_NID(name, subject[i].first, type, text, -1, -1,
                                            i == 0 ? 0 : set) == 1,
                 "writing a subject");
    }
    pki::check(X509_REQ_set_pubkey(request.get(), key.get()) == 1 &&
                   X509_REQ_sign(request.get(), key.get(), EVP_sha256()) > 0,
               "signing a request");
    return pki::writeRequest(request.get());
  }
  Json objectOf(kj::StringPtr request, kj::StringPtr certificate,
                kj::ArrayPtr<const kj::byte> signature) {
    return {{"metadata",
             {{"annotations",
               {{kNodeCertificateAnnotation.cStr(), certificate.cStr()},
                {kNodeSignatureAnnotation.cStr(), kj::encodeBase64(signature).cStr()}}}}},
            {"spec",
             {{"request", kj::encodeBase64(request.asBytes()).cStr()},
              {"usages", {"key encipherment", "digital signature", "client auth"}}}}};
  }
  // Returns the object that a node of this name makes.
  Json objectBy(const pki::CertificateAndKey& node, kj::StringPtr request) {
    return objectOf(request, node.certificate, signRequestAsNode(node.key, request));
  }
  std::string refused(const Json& object) {
    std::string error = "proven";
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                        [&] { proveNode(object, machineCa.certificate, now); })) {
      error = messageOf(*e).cStr();
    }
    return error;
  }
};

// Catches: a worker that cannot join; an address that is not the one that trustd saw.
TEST_F(NodeProof, IsTheCertificateOfTheNodesApi) {
  auto node = certificateOf("worker-1", machineCa);
  auto proven =
      proveNode(objectBy(node, requestFor("system:node:worker-1")), machineCa.certificate, now);
  EXPECT_EQ("worker-1", proven.name);
  EXPECT_EQ("10.5.0.3", kj::strArray(proven.addresses, " "));
}

// Catches: a request that is approved on the bootstrap token alone; a worker that becomes another
// worker, or a control-plane node; a signature that is valid for a second request.
TEST_F(NodeProof, IsOfThisNodeAndThisRequestAlone) {
  auto node = certificateOf("worker-1", machineCa);
  auto own = requestFor("system:node:worker-1"), other = requestFor("system:node:master-1");
  EXPECT_EQ("the node has not shown a certificate that trustd has signed",
            refused(objectOf(own, "", nullptr)));
  EXPECT_EQ("the certificate that the node has shown is for worker-1, not for master-1",
            refused(objectBy(node, other)));
  constexpr auto kOtherKey =
      "it is not signed with the key of the certificate that the node has shown";
  EXPECT_EQ(kOtherKey, refused(objectOf(own, node.certificate, nullptr)));
  EXPECT_EQ(kOtherKey,
            refused(objectOf(own, node.certificate, signRequestAsNode(node.key, other))));
  auto thief = pki::makeKey(pki::KeyType::kEd25519);
  EXPECT_EQ(kOtherKey, refused(objectOf(own, node.certificate, signRequestAsNode(thief, own))));
}

// Catches: a certificate of another CA, or an expired one, that counts.
TEST_F(NodeProof, IsValid) {
  auto stranger = pki::makeAuthority({.organization = "talos"});
  auto request = requestFor("system:node:worker-1");
  EXPECT_TRUE(kj::StringPtr(refused(objectBy(certificateOf("worker-1", stranger), request)).c_str())
                  .startsWith("the certificate that the node has shown is not valid: "));
  auto object = objectBy(certificateOf("worker-1", machineCa), request);
  EXPECT_EQ("proven", refused(object));
  now += 25 * kj::HOURS;
  EXPECT_EQ("the certificate that the node has shown is not valid: certificate has expired",
            refused(object));
  EXPECT_NE("proven", refused(objectOf(request, "no certificate", nullptr)));
}

// Catches: a certificate of a server, an administrator or a control plane by way of a node.
TEST_F(NodeProof, IsForAKubeletsClient) {
  auto node = certificateOf("worker-1", machineCa);
  constexpr auto kNotANode = "it is not for a user system:node:NAME of the group system:nodes";
  EXPECT_EQ(kNotANode,
            refused(objectBy(node, requestFor("system:node:worker-1", "system:masters"))));
  EXPECT_EQ(kNotANode, refused(objectBy(node, requestFor("worker-1"))));
  EXPECT_EQ(kNotANode, refused(objectBy(node, requestFor("system:node:"))));
  EXPECT_EQ("it has names and addresses of a server",
            refused(objectBy(
                node, pki::makeRequest(kubeletKey, {.commonName = "system:node:worker-1",
                                                    .organizations = kj::arr(kj::str(kNodeGroup)),
                                                    .dnsNames = kj::arr(kj::str("a"))}))));
  auto object = objectBy(node, requestFor("system:node:worker-1"));
  object["spec"]["usages"].push_back("server auth");
  EXPECT_EQ("it asks for more than the certificate of a client", refused(object));
  object["spec"]["usages"] = {"digital signature"};
  EXPECT_EQ("it is not for a certificate of a client", refused(object));
  object["spec"]["request"] = "!";
  object["spec"]["usages"] = {"client auth"};
  EXPECT_NE("proven", refused(object));
  EXPECT_NE("proven", refused(Json::array()));
}

// Catches: a worker that becomes a control plane, because its request names both, and one program
// reads the first name and another one the last.
TEST_F(NodeProof, HasOneName) {
  auto node = certificateOf("worker-1", machineCa);
  constexpr auto kWorker = "system:node:worker-1", kMaster = "system:node:master-1",
                 kGroup = "system:nodes";
  constexpr int kO = NID_organizationName, kCn = NID_commonName;
  EXPECT_EQ("proven", refused(objectBy(node, requestOf({{kO, kGroup}, {kCn, kWorker}}))));
  constexpr auto kTwoNames = "the request has more than one common name";
  for (int set : {0, -1}) {
    EXPECT_EQ(
        kTwoNames,
        refused(objectBy(node, requestOf({{kO, kGroup}, {kCn, kWorker}, {kCn, kMaster}}, set))));
    EXPECT_EQ(
        kTwoNames,
        refused(objectBy(node, requestOf({{kO, kGroup}, {kCn, kMaster}, {kCn, kWorker}}, set))));
  }
  constexpr auto kOther =
      "the subject of the request is something else than one organization and one common name";
  EXPECT_EQ(kOther, refused(objectBy(node, requestOf({{kO, kGroup}, {kCn, kWorker}}, -1))));
  EXPECT_EQ(kOther, refused(objectBy(
                        node, requestOf({{kO, kGroup}, {NID_countryName, "AQ"}, {kCn, kWorker}}))));
  EXPECT_EQ(kOther, refused(objectBy(
                        node, requestOf({{kO, kGroup}, {kCn, kWorker}}, 0, V_ASN1_T61STRING))));
}

// Catches: a text with two requests of which one program reads the first and another the last.
TEST_F(NodeProof, HasOneRequest) {
  auto node = certificateOf("worker-1", machineCa);
  auto own = requestFor("system:node:worker-1"), other = requestFor("system:node:master-1");
  constexpr auto kNotOurs =
      "the text of the request is not as this system writes it, in one PEM block";
  auto hidden = kj::str(kj::repeat('x', 254), own);  // at the start of a line for OpenSSL alone
  auto indented = kj::str(" ", own);
  for (auto& text : {kj::str(own, other), kj::str(own, "\n"), kj::str("\n", own),
                     kj::str(hidden, other), kj::str(own, kj::StringPtr("\0", 1), other),
                     kj::str("x\n", own), kj::str(own.slice(0, own.size() - 1))}) {
    EXPECT_EQ(kNotOurs, refused(objectBy(node, text))) << text.cStr();
  }
  EXPECT_NE("proven", refused(objectBy(node, indented)));
  auto object = objectBy(node, own);
  auto encoded = object["spec"]["request"].get<std::string>();
  object["spec"]["request"] = encoded.substr(0, 8) + "!" + encoded.substr(8);
  EXPECT_EQ("its text is not base64", refused(object));
}

}  // namespace
}  // namespace talos::kube
