#include "common/config/documents/document-extensions.h"

#include <set>
#include <string>

#include "common/extension/extension-names.h"
#include "common/text/foreign-text.h"

namespace talos::config {
namespace {

constexpr kj::StringPtr kServiceConfigKind = "ExtensionServiceConfig"_kj;

bool isOfKind(const codec::YamlNode& document, kj::StringPtr kind) {
  for (auto& entry : document.entries) {
    if (entry.key == "kind") return entry.value != nullptr && entry.value->text == kind;
  }
  return false;
}

// Returns true for an absolute path of a file, without empty parts, "." and "..".
bool isPathOfFile(kj::StringPtr path) {
  if (!path.startsWith("/") || path.endsWith("/")) return false;
  std::string part;
  for (size_t i = 1; i <= path.size(); ++i) {
    if (i < path.size() && path[i] != '/') {
      part += path[i];
      continue;
    }
    if (part.empty() || part == "." || part == "..") return false;
    part.clear();
  }
  return true;
}

void fillConfig(document::ExtensionServiceConfig::Reader from,
                extension::ServiceConfig::Builder out) {
  out.setName(from.getName());
  out.setEnvironment(from.getEnvironment());
  auto files = from.getConfigFiles();
  auto list = out.initFiles(files.size());
  for (unsigned i = 0; i < files.size(); ++i) {
    list[i].setMountPath(files[i].getMountPath());
    list[i].setContent(files[i].getContent());
  }
}

}  // namespace

void ExtensionDocuments::serviceConfig(Document& document) {
  KJ_IF_MAYBE (config, decoder.decode<document::ExtensionServiceConfig>(document)) {
    if (!extension::isExtensionName(config->getName())) {
      decoder.report(document, "name",
                     kj::str(jsonString(config->getName()), " is not the name of a service"),
                     "use the name in the extension's service file");
    }
    if (config->getConfigFiles().size() == 0 && config->getEnvironment().size() == 0) {
      decoder.report(document, "", kj::str("it has neither configFiles nor environment"),
                     "set one of the two, or remove the document");
    }
    checkFiles(document, *config);
    checkEnvironment(document, *config);
  }
}

void ExtensionDocuments::checkFiles(const Document& document,
                                    document::ExtensionServiceConfig::Reader config) {
  std::set<std::string> names;
  for (auto i : kj::indices(config.getConfigFiles())) {
    auto path = config.getConfigFiles()[i].getMountPath();
    auto key = kj::str("configFiles[", i, "].mountPath");
    if (!isPathOfFile(path)) {
      decoder.report(document, key, kj::str(jsonString(path), " is not the path of a file"),
                     "for example /usr/local/etc/agent.conf");
    } else {
      // The node keeps the files in one folder, with dashes in place of slashes.
      std::string name = path.cStr();
      for (char& c : name) c = c == '/' ? '-' : c;
      if (!names.insert(name).second) {
        decoder.report(document, key, kj::str("there is another file for ", path),
                       "remove one of the two");
      }
    }
  }
}

void ExtensionDocuments::checkEnvironment(const Document& document,
                                          document::ExtensionServiceConfig::Reader config) {
  for (auto i : kj::indices(config.getEnvironment())) {
    auto equals = config.getEnvironment()[i].findFirst('=');
    KJ_IF_MAYBE (at, equals) {
      if (*at > 0) continue;
    }
    decoder.report(document, kj::str("environment[", i, "]"), kj::str("the variable has no name"),
                   "use NAME=value");
  }
}

void extensionConfigs(kj::ArrayPtr<const char> text, InitConfigs init) {
  Problems problems, mistakes;
  codec::YamlStream stream(text, "", problems);
  kj::Vector<kj::Own<SecretMessage>> found;
  for (auto* document : stream.documents()) {
    if (!isOfKind(*document, kServiceConfigKind)) continue;
    auto message = kj::heap<SecretMessage>();
    auto root = message->initRoot<document::ExtensionServiceConfig>();
    if (!codec::readNode(stream, *document, root, mistakes)) continue;
    if (extension::isExtensionName(root.getName())) found.add(kj::mv(message));
  }
  auto list = init(static_cast<unsigned>(found.size()));
  for (unsigned i = 0; i < found.size(); ++i) {
    fillConfig(found[i]->getRoot<document::ExtensionServiceConfig>().asReader(), list[i]);
  }
}

}  // namespace talos::config
