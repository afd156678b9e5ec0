// Documents of the CAs of Kubernetes, of service accounts and of the encryption of etcd: the
// secrets of cluster in the view.

#include <set>
#include <string_view>

#include "common/config/documents/document-cluster.h"
#include "common/config/kubernetes/cluster-networks.h"
#include "common/config/kubernetes/endpoint.h"
#include "common/config/rules/config-check.h"
#include "common/config/rules/encryption-keys.h"
#include "common/text/foreign-text.h"
#include "common/tls/authorities.h"
#include "common/tls/pki.h"
#include "common/tls/public-key.h"

namespace talos::config {
namespace {

constexpr auto kCa = "cluster.ca"_kj, kAcceptedCas = "cluster.acceptedCAs"_kj,
               kAggregatorCa = "cluster.aggregatorCA"_kj,
               kAcceptedAggregatorCas = "cluster.acceptedAggregatorCAs"_kj,
               kAccount = "cluster.serviceAccount"_kj,
               kAccountKeys = "cluster.acceptedServiceAccountKeys"_kj,
               kSecretboxSecret = "cluster.secretboxEncryptionSecret"_kj,
               kAescbcSecret = "cluster.aescbcEncryptionSecret"_kj,
               kAcceptedSecrets = "cluster.acceptedEncryptionSecrets"_kj;
constexpr auto kResources = "config.resources"_kj, kProviders = "config.resources[0].providers"_kj;
// Names of keys in etcd, before each object (encryption-keys.h).
constexpr auto kSecretboxKey = "key2"_kj, kAescbcKey = "key1"_kj;

}  // namespace

// --- CAs

void ClusterSecretDocuments::certificates(Document& document, kj::StringPtr key, kj::StringPtr text,
                                          bool one) {
  auto found = pki::certificatesIn(text);
  KJ_IF_MAYBE (mistake, certificatesMistake(text, found.asPtr())) {
    decoder.report(document, key, kj::mv(*mistake), kPemForm);
  } else if (one && found.size() > 1) {
    decoder.report(document, key, kj::str("there are ", found.size(), " certificates"),
                   "make the others items of acceptedCAs");
  }
}

void ClusterSecretDocuments::issuing(Document& document, document::KubeIssuingCA::Reader ca,
                                     Texts::Reader accepted) {
  if (isControlPlane(type())) {
    for (auto& [key, text] : {std::pair("issuingCA.cert"_kj, kj::StringPtr(ca.getCert())),
                              std::pair("issuingCA.key"_kj, kj::StringPtr(ca.getKey()))}) {
      if (text.size() > 0) continue;
      decoder.report(document, key, kj::str("a control-plane node needs it"),
                     "set cert and key, in PEM");
    }
    if (ca.getCert().size() > 0) certificates(document, "issuingCA.cert", ca.getCert(), true);
  } else {
    decoder.refuse(document, "issuingCA", "a worker issues no certificates, and must not have it",
                   "move its certificate to acceptedCAs");
    if (accepted.size() == 0) {
      decoder.report(document, "acceptedCAs", kj::str("the CA of Kubernetes is missing"),
                     "set its certificate, in PEM");
    }
  }
  bool worker = !isControlPlane(type());
  for (auto i : kj::indices(accepted)) {
    certificates(document, kj::str("acceptedCAs[", i, "]"), accepted[i], worker && i == 0);
  }
}

template <typename Init>
void ClusterSecretDocuments::writeAuthority(Document& document, document::KubeIssuingCA::Reader ca,
                                            Texts::Reader accepted, CertificateAndKey::Builder out,
                                            kj::StringPtr inView, kj::StringPtr listInView,
                                            Init init) {
  // A worker verifies with one CA, and with the others beside it.
  bool first = !isControlPlane(type());
  kj::StringPtr own = first ? accepted[0] : ca.getCert();
  out.setCrt(own.asBytes());
  decoder.from(document, first ? "acceptedCAs[0]"_kj : "issuingCA.cert"_kj,
               kj::str(inView, ".crt"));
  if (!first) {
    out.setKey(kj::StringPtr(ca.getKey()).asBytes());
    decoder.from(document, "issuingCA.key", kj::str(inView, ".key"));
  }
  auto issuer = pki::certificatesIn(own);
  kj::Vector<unsigned> others;
  for (unsigned i = first ? 1 : 0; i < accepted.size(); ++i) {
    auto found = pki::certificatesIn(accepted[i]);
    if (found.size() != 1 || found[0] != issuer[0]) others.add(i);
  }
  if (others.empty()) return;
  capnp::List<AcceptedCa>::Builder list = init(static_cast<unsigned>(others.size()));
  for (unsigned i = 0; i < others.size(); ++i) {
    list[i].setCrt(kj::StringPtr(accepted[others[i]]).asBytes());
    decoder.from(document, kj::str("acceptedCAs[", others[i], "]"),
                 kj::str(listInView, "[", i, "].crt"));
  }
}

void ClusterSecretDocuments::apiServerAuthority(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeAPIServerCAConfig>(document)) {
    if (isBeside(decoder, document, main().hasCa(), kCa)) return;
    if (isBeside(decoder, document, main().getAcceptedCAs().size() > 0, kAcceptedCas)) return;
    auto before = decoder.errors();
    issuing(document, d->getIssuingCA(), d->getAcceptedCAs());
    if (decoder.errors() > before) return;
    auto out = view.getCluster();
    writeAuthority(document, d->getIssuingCA(), d->getAcceptedCAs(), out.initCa(), kCa,
                   kAcceptedCas, [&](unsigned size) { return out.initAcceptedCAs(size); });
  }
}

void ClusterSecretDocuments::aggregatorAuthority(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeAggregatorCAConfig>(document)) {
    if (isOnWorker(decoder, document, type())) return;
    if (isBeside(decoder, document, main().hasAggregatorCA(), kAggregatorCa)) return;
    bool accepts = main().getAcceptedAggregatorCAs().size() > 0;
    if (isBeside(decoder, document, accepts, kAcceptedAggregatorCas)) return;
    auto before = decoder.errors();
    issuing(document, d->getIssuingCA(), d->getAcceptedCAs());
    if (decoder.errors() > before) return;
    auto out = view.getCluster();
    writeAuthority(document, d->getIssuingCA(), d->getAcceptedCAs(), out.initAggregatorCA(),
                   kAggregatorCa, kAcceptedAggregatorCas,
                   [&](unsigned size) { return out.initAcceptedAggregatorCAs(size); });
  }
}

// --- service accounts

void ClusterSecretDocuments::keysOfAccounts(Document& document,
                                            document::KubeServiceAccountConfig::Reader account) {
  kj::StringPtr key = account.getIssuer().getPrivateKey();
  if (kj::runCatchingExceptions([&] { pki::tokenKeyId(pki::publicKeyOf(key)); }) != nullptr) {
    decoder.report(document, "issuer.privateKey", kj::str("not a private key of RSA or ECDSA"),
                   "use PEM, from BEGIN to END");
  }
  auto accepted = account.getAccepted().getPublicKeys();
  for (auto i : kj::indices(accepted)) {
    auto found = pki::publicKeysIn(accepted[i]);
    bool good = !found.empty();
    for (auto& one : found) {
      good = good && kj::runCatchingExceptions([&] { pki::tokenKeyId(one); }) == nullptr;
    }
    if (good) continue;
    decoder.report(document, kj::str("accepted.publicKeys[", i, "]"),
                   kj::str("not a public key of RSA or ECDSA"), "use PEM, from BEGIN to END");
  }
}

void ClusterSecretDocuments::issuersOfAccounts(Document& document,
                                               document::KubeServiceAccountConfig::Reader account) {
  kj::StringPtr url = account.getIssuer().getIssuerURL();
  auto parsed = parseEndpoint(url);
  if (parsed.problem.size() > 0) {
    decoder.report(document, "issuer.issuerURL", kj::mv(parsed.problem),
                   "for example https://10.5.0.2:6443");
  }
  auto issuers = account.getAccepted().getIssuers();
  for (auto i : kj::indices(issuers)) {
    if (issuers[i] == url) continue;
    decoder.report(document, kj::str("accepted.issuers[", i, "]"),
                   kj::str("tokens have one issuer here, issuer.issuerURL"),
                   "remove it; kubelets get tokens of the new issuer for running pods, too");
  }
  auto accepted = account.getAccepted().getAudiences();
  for (auto i : kj::indices(accepted)) {
    if (accepted[i].size() > 0 && kj::StringPtr(accepted[i]).findFirst(',') == nullptr) continue;
    decoder.report(document, kj::str("accepted.audiences[", i, "]"),
                   kj::str(jsonString(accepted[i]), " is not an audience"),
                   "use one text without commas, such as a URL");
  }
  for (auto name : {"service-account-issuer"_kj, "api-audiences"_kj}) {
    for (auto argument : main().getApiServer().getExtraArgs()) {
      isBeside(decoder, document, argument.getKey() == name,
               kj::str("cluster.apiServer.extraArgs.", name));
    }
  }
}

void ClusterSecretDocuments::serviceAccount(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeServiceAccountConfig>(document)) {
    if (isOnWorker(decoder, document, type())) return;
    if (isBeside(decoder, document, main().hasServiceAccount(), kAccount)) return;
    bool accepts = main().getAcceptedServiceAccountKeys().size() > 0;
    if (isBeside(decoder, document, accepts, kAccountKeys)) return;
    auto before = decoder.errors();
    keysOfAccounts(document, *d);
    issuersOfAccounts(document, *d);
    if (decoder.errors() > before) return;
    auto out = view.getCluster();
    kj::StringPtr key = d->getIssuer().getPrivateKey();
    out.initServiceAccount().setKey(key.asBytes());
    decoder.from(document, "issuer.privateKey", "cluster.serviceAccount.key");
    auto keys = d->getAccepted().getPublicKeys();
    if (keys.size() > 0) {
      auto list = out.initAcceptedServiceAccountKeys(keys.size());
      for (auto i : kj::indices(keys)) list[i].setKey(kj::StringPtr(keys[i]).asBytes());
      decoder.from(document, "accepted.publicKeys", kAccountKeys);
    }
    issuer = d->getIssuer().getIssuerURL();
    auto given = d->getAccepted().getAudiences();
    audiences = given.size() > 0 ? kj::strArray(given, ",") : kj::str(issuer);
  }
}

void ClusterSecretDocuments::write() {
  if (issuer.size() == 0) return;
  // kube-apiserver has the endpoint as the issuer and the audience without them.
  auto endpoint = clusterEndpoint(main());
  kj::Vector<ComponentArgument> arguments;
  if (issuer != endpoint) {
    arguments.add(ComponentArgument{"service-account-issuer"_kj, kj::str(issuer)});
  }
  if (audiences != endpoint) {
    arguments.add(ComponentArgument{"api-audiences"_kj, kj::str(audiences)});
  }
  if (!arguments.empty()) addArguments(view.getCluster().getApiServer(), arguments.asPtr());
}

// --- encryption of etcd

ClusterSecretDocuments::EncryptionKeys ClusterSecretDocuments::encryptionKeys(
    Document& document, document::KubeEtcdEncryptionConfig::Encryption::Reader config) {
  EncryptionKeys keys;
  auto add = [&](kj::Vector<EncryptionKey>& list, kj::StringPtr provider, auto given) {
    for (auto i : kj::indices(given)) {
      auto path = kj::str(provider, ".keys[", i, "]");
      kj::StringPtr name = given[i].getName(), secret = given[i].getSecret();
      if (secret.size() == 0) {
        decoder.report(document, kj::str(path, ".secret"), kj::str("the key is empty"),
                       kEncryptionKeyForm);
      }
      bool secretbox = &list == &keys.secretbox;
      if (name != (secretbox ? kSecretboxKey : kAescbcKey) &&
          !(secretbox && name == ownKeyName(secret))) {
        decoder.report(document, kj::str(path, ".name"),
                       kj::str("this system gives keys other names, which are in etcd before each "
                               "Secret"),
                       kj::str("use ", secretbox ? kSecretboxKey : kAescbcKey));
      }
      list.add(EncryptionKey{name, secret, kj::str(path, ".secret")});
    }
  };
  auto providers = config.getResources()[0].getProviders();
  for (auto i : kj::indices(providers)) {
    auto path = kj::str(kProviders, "[", i, "]");
    for (auto other : {"aesgcm"_kj, "kms"_kj}) {
      decoder.refuse(document, kj::str(path, ".", other),
                     "this system encrypts with secretbox, or with aescbc", "use secretbox");
    }
    add(keys.secretbox, kj::str(path, ".secretbox"), providers[i].getSecretbox().getKeys());
    add(keys.aescbc, kj::str(path, ".aescbc"), providers[i].getAescbc().getKeys());
    if (!document.places.has(kj::str(path, ".identity"))) continue;
    keys.identity = true;
    if (!keys.secretbox.empty() || !keys.aescbc.empty()) continue;
    decoder.report(document, kj::str(path, ".identity"),
                   kj::str("Secrets would be written as they are"), "name it after secretbox");
  }
  return keys;
}

void ClusterSecretDocuments::checkOrder(Document& document, const EncryptionKeys& keys,
                                        bool secretboxFirst) {
  if (!keys.identity) {
    decoder.report(document, kProviders,
                   kj::str("this system also reads Secrets that are not encrypted"),
                   "add identity: {} as the last provider");
  }
  if (keys.secretbox.empty() && keys.aescbc.empty()) {
    decoder.report(document, kProviders, kj::str("there is no key"), "add secretbox");
  }
  if (!secretboxFirst && !keys.secretbox.empty()) {
    decoder.report(document, keys.aescbc[0].path,
                   kj::str("beside secretbox, this system reads with aescbc, and does not write"),
                   "name secretbox first");
  }
  if (keys.aescbc.size() > 1) {
    decoder.report(document, keys.aescbc[1].path, kj::str("this system has one key of aescbc"),
                   "remove it, or use secretbox");
  }
}

void ClusterSecretDocuments::writeEncryption(Document& document, const EncryptionKeys& keys,
                                             bool secretboxFirst) {
  auto out = view.getCluster();
  if (!keys.aescbc.empty()) {
    out.setAescbcEncryptionSecret(keys.aescbc[0].secret);
    decoder.from(document, keys.aescbc[0].path, kAescbcSecret);
  }
  if (!secretboxFirst) return;
  auto& writer = keys.secretbox[0];
  out.setSecretboxEncryptionSecret(writer.secret);
  decoder.from(document, writer.path, kSecretboxSecret);
  // A key that is accepted as well writes under its own name (encryption-keys.h).
  kj::Vector<const EncryptionKey*> accepted;
  std::set<std::string_view> known;
  if (writer.name == kSecretboxKey) known.insert(writer.secret.cStr());
  for (auto& key : keys.secretbox) {
    if (known.insert(key.secret.cStr()).second) accepted.add(&key);
  }
  if (accepted.empty()) return;
  auto list = out.initAcceptedEncryptionSecrets(static_cast<unsigned>(accepted.size()));
  for (unsigned i = 0; i < accepted.size(); ++i) {
    list.set(i, accepted[i]->secret);
    decoder.from(document, accepted[i]->path, kj::str(kAcceptedSecrets, "[", i, "]"));
  }
}

void ClusterSecretDocuments::etcdEncryption(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeEtcdEncryptionConfig>(document)) {
    if (isOnWorker(decoder, document, type())) return;
    auto old = main();
    if (isBeside(decoder, document, old.getSecretboxEncryptionSecret().size() > 0,
                 kSecretboxSecret))
      return;
    if (isBeside(decoder, document, old.getAescbcEncryptionSecret().size() > 0, kAescbcSecret))
      return;
    bool accepts = old.getAcceptedEncryptionSecrets().size() > 0;
    if (isBeside(decoder, document, accepts, kAcceptedSecrets)) return;
    auto resources = d->getConfig().getResources();
    bool secrets = resources.size() == 1 && resources[0].getResources().size() == 1 &&
                   resources[0].getResources()[0] == "secrets";
    if (!secrets) {
      return decoder.report(document, kResources,
                            kj::str("this system encrypts Secrets, and nothing else"),
                            "use one item, with resources: [secrets]");
    }
    auto before = decoder.errors();
    auto keys = encryptionKeys(document, d->getConfig());
    // The first key writes.
    bool secretboxFirst = false;
    for (auto provider : resources[0].getProviders()) {
      bool box = provider.getSecretbox().getKeys().size() > 0;
      if (!box && provider.getAescbc().getKeys().size() == 0) continue;
      secretboxFirst = box;
      break;
    }
    checkOrder(document, keys, secretboxFirst);
    if (decoder.errors() == before) writeEncryption(document, keys, secretboxFirst);
  }
}

}  // namespace talos::config
