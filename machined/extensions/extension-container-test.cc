#include "machined/extensions/extension-container.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

namespace talos::machined {
namespace {

struct TestService {
  capnp::MallocMessageBuilder message;
  extension::ServiceFile::Builder file = message.initRoot<extension::ServiceFile>();
  TestService() {
    file.setName("agent");
    file.initContainer().setEntrypoint("./bin/agent");
  }
  ContainerSpec spec(kj::Maybe<const ExtensionConfig&> config = nullptr) {
    auto lines = variablesOf("# x\nB=2\n\n=3\nC=a=b\n");
    return extensionContainer(file, lines, config);
  }
};

ExtensionConfig config(kj::StringPtr content, kj::StringPtr variable) {
  ExtensionConfig result;
  result.name = kj::str("agent");
  result.files.add(ExtensionConfigFile{kj::str("/etc/agent/a.conf"), kj::str(content)});
  result.environment.add(kj::str(variable));
  return result;
}

TEST(ExtensionContainer, HasTheRootAndTheProgramOfTheService) {
  TestService service;
  auto spec = service.spec();
  EXPECT_EQ(spec.image, "");
  EXPECT_EQ(kj::strArray(spec.arguments, " "), "/bin/agent");
  auto& bounds = KJ_ASSERT_NONNULL(spec.extension);
  EXPECT_EQ(bounds.rootFolder, "/usr/local/lib/containers/agent");
  EXPECT_TRUE(bounds.masked == nullptr);
  for (auto [given, program] :
       {std::pair("bin/a"_kj, "/bin/a"_kj), {"/bin/a", "/bin/a"}, {"a", "a"}}) {
    service.file.getContainer().setEntrypoint(given);
    EXPECT_EQ(service.spec().arguments[0], program);
  }
}

// Catches: a variable of the user that the extension's own one replaces.
TEST(ExtensionContainer, TheConfigComesLast) {
  TestService service;
  auto list = service.file.getContainer().initEnvironment(1);
  list.set(0, "A=1");
  auto given = config("text", "A=2");
  auto spec = service.spec(given);
  EXPECT_EQ(kj::strArray(spec.environment, " "), "A=1 B=2 C=a=b A=2");
  ASSERT_EQ(spec.mounts.size(), 1u);
  EXPECT_EQ(spec.mounts[0].source, "/system/overlays/extensions/agent/etc-agent-a.conf");
  EXPECT_EQ(spec.mounts[0].destination, "/etc/agent/a.conf");
  EXPECT_FALSE(spec.mounts[0].writable);
}

// Catches: paths that are hidden though the file says that none are.
TEST(ExtensionContainer, AnEmptyListIsNotTheDefault) {
  TestService service;
  service.file.getContainer().initSecurity().initMaskedPaths(0);
  auto spec = service.spec();
  auto& bounds = KJ_ASSERT_NONNULL(spec.extension);
  EXPECT_EQ(KJ_ASSERT_NONNULL(bounds.masked).size(), 0u);
  EXPECT_TRUE(bounds.readOnly == nullptr);
}

// Catches: a change of the document after which the service keeps its old files.
TEST(ExtensionContainer, EachChangeOfADocumentHasAnotherDigest) {
  auto first = config("a", "A=1"), same = config("a", "A=1"), content = config("b", "A=1"),
       variable = config("a", "A=2");
  EXPECT_EQ(digestOfConfig(first), digestOfConfig(same));
  EXPECT_NE(digestOfConfig(first), digestOfConfig(content));
  EXPECT_NE(digestOfConfig(first), digestOfConfig(variable));
  EXPECT_EQ(digestOfConfig(nullptr), "");
}

}  // namespace
}  // namespace talos::machined
