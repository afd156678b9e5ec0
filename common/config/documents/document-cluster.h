// Documents of the cluster of Kubernetes: its name, networks, secrets and manifests; part of
// documents.h. Each is refused beside the keys that it replaces; manifests are added to those of
// the main document. Their readers change nothing before they have found the document right.
#pragma once

#include "common/config/documents/document-reader.h"

namespace talos::config {

// Return true after they have reported that the document is on a worker, or beside a key of the
// main document that it replaces.
bool isOnWorker(DocumentDecoder& decoder, Document& document, MachineType type);
bool isBeside(DocumentDecoder& decoder, Document& document, bool isSet, kj::StringPtr key);

// An argument of kube-apiserver or kube-controller-manager that documents of the cluster give.
struct ComponentArgument {
  kj::StringPtr name;
  kj::String value;
};
bool hasArgument(capnp::List<StringPair>::Reader arguments, kj::StringPtr name);
// Adds those arguments that the component lacks: its own document wins.
template <typename Component>
void addArguments(Component out, kj::ArrayPtr<const ComponentArgument> arguments) {
  auto present = out.asReader().getExtraArgs();
  Additions<StringPair> missing(present.size());
  kj::String path;
  for (auto& argument : arguments) {
    if (hasArgument(present, argument.name)) continue;
    auto item = missing.add("", path);
    item.setKey(argument.name);
    item.setValue(argument.value);
  }
  missing.write(present, [&](unsigned size) { return out.initExtraArgs(size); });
}

// Documents of the cluster's name, networks, manifests, and of pods at the machine API.
class ClusterDocuments {
 public:
  ClusterDocuments(DocumentDecoder& decoder, Config::Builder view);

  // Each reads one kind.
  void cluster(Document& document);
  void network(Document& document);
  void flannel(Document& document);
  void inlineManifest(Document& document);
  void externalManifest(Document& document);
  void apiAccess(Document& document);

  // Says that a document of this kind is not in the view.
  void refused(kj::StringPtr kind);
  struct Mark {};
  Mark mark() const { return {}; }
  void dropSince(Mark) {}
  void write();

 private:
  using Texts = capnp::List<capnp::Text>;
  using Pairs = capnp::List<StringPair>;

  DocumentDecoder& decoder;
  Config::Builder view;
  const bool mainHasNetwork;
  const size_t mainUrls;
  bool networkGiven = false, flannelGiven = false, flannelRefused = false;
  kj::Vector<ComponentArgument> managerArguments;
  Additions<InlineManifest> manifests;
  kj::Vector<kj::StringPtr> urls;
  // Headers with which all manifests are fetched, and what gave them.
  kj::Maybe<Pairs::Reader> headers;
  kj::String headersFrom;

  Cluster::Reader main() const { return view.asReader().getCluster(); }
  void subnets(Document& document, kj::StringPtr key, Texts::Reader list);
  // Checks the prefix length of each node's part of the pods' network of this family. Returns the
  // argument for it; nullptr if kube-controller-manager needs none.
  kj::Maybe<ComponentArgument> nodeMask(Document& document, Texts::Reader pods, int family,
                                        unsigned length);
  void checkMask(Document& document, kj::StringPtr key, Texts::Reader pods, int family,
                 unsigned length);
  void writeNetwork();
  void writeManifests();
};

// Documents of the CAs of Kubernetes, of service accounts and of the encryption of etcd.
class ClusterSecretDocuments {
 public:
  ClusterSecretDocuments(DocumentDecoder& decoder, Config::Builder view)
      : decoder(decoder), view(view) {}

  // Each reads one kind.
  void apiServerAuthority(Document& document);
  void aggregatorAuthority(Document& document);
  void serviceAccount(Document& document);
  void etcdEncryption(Document& document);

  struct Mark {};
  Mark mark() const { return {}; }
  void dropSince(Mark) {}
  void write();

 private:
  using Texts = capnp::List<capnp::Text>;
  // Keys of EncryptionConfiguration, in the memory of the decoder.
  struct EncryptionKey {
    kj::StringPtr name, secret;
    kj::String path;  // of the secret in the document
  };
  struct EncryptionKeys {
    kj::Vector<EncryptionKey> secretbox, aescbc;
    bool identity = false;
  };

  DocumentDecoder& decoder;
  Config::Builder view;
  kj::StringPtr issuer;  // of service accounts; "" if no document says it
  kj::String audiences;  // of their tokens

  Cluster::Reader main() const { return view.asReader().getCluster(); }
  MachineType type() const { return view.asReader().getMachine().getType(); }

  // Check parts of documents.
  void certificates(Document& document, kj::StringPtr key, kj::StringPtr text, bool one);
  void issuing(Document& document, document::KubeIssuingCA::Reader ca, Texts::Reader accepted);
  void keysOfAccounts(Document& document, document::KubeServiceAccountConfig::Reader account);
  void issuersOfAccounts(Document& document, document::KubeServiceAccountConfig::Reader account);
  EncryptionKeys encryptionKeys(Document& document,
                                document::KubeEtcdEncryptionConfig::Encryption::Reader config);
  void checkOrder(Document& document, const EncryptionKeys& keys, bool secretboxFirst);

  // Writes a CA and the accepted ones, for which `init` makes the list, into the view.
  template <typename Init>
  void writeAuthority(Document& document, document::KubeIssuingCA::Reader ca,
                      Texts::Reader accepted, CertificateAndKey::Builder out, kj::StringPtr inView,
                      kj::StringPtr listInView, Init init);
  void writeEncryption(Document& document, const EncryptionKeys& keys, bool secretboxFirst);
};

}  // namespace talos::config
