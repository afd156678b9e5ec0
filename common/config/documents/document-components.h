// Documents of the components of Kubernetes and of the node in it; part of documents.h. Each is
// refused beside the keys that it replaces. Their readers change nothing before they have found the
// document right.
#pragma once

#include "common/config/documents/document-reader.h"

namespace talos::config {

// Reports that the document cannot be on a worker.
void needControlPlane(DocumentDecoder& decoder, Document& document, Config::Reader view);
// Reports that the main document has a key that the document replaces.
void refuseBeside(DocumentDecoder& decoder, Document& document, bool isSet, kj::StringPtr key);

// Documents of the API server, the controller manager and CoreDNS.
class ComponentDocuments {
 public:
  ComponentDocuments(DocumentDecoder& decoder, Config::Builder view);

  // Each reads one kind.
  void apiServer(Document& document);
  void authentication(Document& document);
  void controllerManager(Document& document);
  void coreDns(Document& document);

  struct Mark {};
  Mark mark() const { return {}; }
  void dropSince(Mark) {}
  void write();

 private:
  // Keys of the main document, before other documents add to the view.
  struct Given {
    bool apiServer, controllerManager, localManager, coreDns;
    uint16_t apiPort;
  };

  DocumentDecoder& decoder;
  Config::Builder view;
  const Given given;
  kj::String authenticationFile;  // "" without such a document

  static Given givenIn(Config::Reader main);
  void onControlPlaneOnly(Document& document) {
    needControlPlane(decoder, document, view.asReader());
  }
  void beside(Document& document, bool isSet, kj::StringPtr key) {
    refuseBeside(decoder, document, isSet, key);
  }

  // Check parts of documents.
  void apiServerArguments(Document& document, capnp::List<StringPair>::Reader arguments);
  void apiServerPort(Document& document, uint16_t port);
  void besideAuthentication(Document& document);
  void authenticationKeys(Document& document, FreeObject::Reader configuration);
};

// Documents of the kubelet and of the Node object.
class KubeletDocuments {
 public:
  KubeletDocuments(DocumentDecoder& decoder, Config::Builder view);

  // Each reads one kind.
  void kubelet(Document& document);
  void credentialProviders(Document& document);
  void node(Document& document);

  struct Mark {};
  Mark mark() const { return {}; }
  void dropSince(Mark) {}

 private:
  // Keys of the main document, before other documents add to the view.
  struct Given {
    bool kubelet, registerWithFqdn, nodeIp, skipNodeRegistration, labels, annotations, taints,
        workloads, workloadsOnMasters;
  };

  DocumentDecoder& decoder;
  Config::Builder view;
  const Given given;

  static Given givenIn(Config::Reader main);
  bool isOnControlPlane() const;

  // Check parts of documents.
  void fields(Document& document, KubeletConfiguration::Reader fields);
  void besideNode(Document& document);
  void roleOfNode(Document& document, document::KubeNodeConfig::Reader node);
};

// The document of kube-proxy.
class ProxyDocuments {
 public:
  ProxyDocuments(DocumentDecoder& decoder, Config::Builder view);

  void proxy(Document& document);

  struct Mark {};
  Mark mark() const { return {}; }
  void dropSince(Mark) {}

 private:
  // An argument of kube-proxy that a field of its configuration sets.
  struct Argument {
    kj::String field, name, value;
  };

  DocumentDecoder& decoder;
  Config::Builder view;
  const bool given;  // cluster.proxy of the main document

  void check(Document& document, document::KubeProxyConfig::Reader proxy,
             kj::ArrayPtr<const Argument> arguments);
  void mode(Document& document, document::KubeProxyConfig::Reader proxy);
  // Adds the arguments of the fields in a mapping of the configuration.
  void fields(Document& document, kj::StringPtr path, const codec::YamlNode& mapping,
              kj::Vector<Argument>& out);
  void field(Document& document, kj::StringPtr path, const codec::YamlNode& value,
             kj::Vector<Argument>& out);
  // Reports a field that no argument sets.
  void otherField(Document& document, kj::StringPtr path, kj::StringPtr text);
};

}  // namespace talos::config
