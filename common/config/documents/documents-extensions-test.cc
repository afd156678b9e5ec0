// Documents of the services of system extensions: ExtensionServiceConfig.
#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/config/documents/document-extensions.h"
#include "common/config/documents/test-documents.h"

namespace talos::config {
namespace {

using ::testing::HasSubstr;

// Returns the documents that the services get, one a line.
std::string givenBy(const std::string& text) {
  capnp::MallocMessageBuilder message;
  auto list = message.getOrphanage().newOrphan<capnp::List<extension::ServiceConfig>>(0);
  extensionConfigs(kj::arrayPtr(text.data(), text.size()), [&](unsigned size) {
    list = message.getOrphanage().newOrphan<capnp::List<extension::ServiceConfig>>(size);
    return list.get();
  });
  std::string all;
  for (auto config : list.getReader()) {
    all += kj::str(config.getName(), ":").cStr();
    for (auto variable : config.getEnvironment()) all += kj::str(" ", variable).cStr();
    for (auto file : config.getFiles()) {
      all += kj::str(" ", file.getMountPath(), "=", file.getContent()).cStr();
    }
    all += "\n";
  }
  return all;
}

constexpr const char* kAgent =
    "kind: ExtensionServiceConfig, name: agent, environment: [A=b, C=], "
    "configFiles: [{mountPath: /etc/agent.conf, content: text}]";

TEST(ExtensionDocuments, ReachTheServices) {
  auto text = mainDocument() + oneDocument(kAgent) +
              oneDocument("kind: HostnameConfig, hostname: agent") +
              oneDocument("kind: ExtensionServiceConfig, name: other, environment: [X=y]");
  EXPECT_EQ("", problemsIn(text));
  EXPECT_EQ("agent: A=b C= /etc/agent.conf=text\nother: X=y\n", givenBy(text));
  EXPECT_EQ("", givenBy(mainDocument()));
}

// Catches: a document of a kept config that keeps another one from its service.
TEST(ExtensionDocuments, OneWithMistakesIsLeftOut) {
  auto text = mainDocument() + oneDocument("kind: ExtensionServiceConfig, name: bad, colour: red") +
              oneDocument(kAgent);
  EXPECT_EQ("agent: A=b C= /etc/agent.conf=text\n", givenBy(text));
}

// Catches: a file that is mounted elsewhere, or that another one replaces on the node.
TEST(ExtensionDocuments, MistakesHaveTheirPlaces) {
  const std::pair<const char*, const char*> rows[] = {
      {"kind: ExtensionServiceConfig, environment: [A=b]",
       "ExtensionServiceConfig.name: required key is missing"},
      {"kind: ExtensionServiceConfig, name: a",
       "ExtensionServiceConfig[a]: it has neither configFiles nor environment; set one of the two"},
      {"kind: ExtensionServiceConfig, name: ../a, environment: [A=b]",
       "ExtensionServiceConfig[../a].name: \"../a\" is not the name of a service"},
      {"kind: ExtensionServiceConfig, name: a, environment: [A]",
       "ExtensionServiceConfig[a].environment[0]: the variable has no name; use NAME=value"},
      {"kind: ExtensionServiceConfig, name: a, configFiles: [{mountPath: etc/x, content: a}]",
       "configFiles[0].mountPath: \"etc/x\" is not the path of a file"},
      {"kind: ExtensionServiceConfig, name: a, configFiles: [{mountPath: /etc/../x, content: a}]",
       "is not the path of a file"},
      {"kind: ExtensionServiceConfig, name: a, configFiles: [{mountPath: /etc/, content: a}]",
       "is not the path of a file"},
      {"kind: ExtensionServiceConfig, name: a, configFiles: [{content: a}]",
       "configFiles[0].mountPath: required key is missing"},
      {"kind: ExtensionServiceConfig, name: a, configFiles: [{mountPath: /a/b, content: a}, "
       "{mountPath: /a-b, content: a}]",
       "configFiles[1].mountPath: there is another file for /a-b"},
  };
  for (auto& [document, problem] : rows) {
    EXPECT_THAT(problemsIn(mainDocument() + oneDocument(document)), HasSubstr(problem));
  }
}

}  // namespace
}  // namespace talos::config
