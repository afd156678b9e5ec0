#include "rootfs/extension-layers/extension-tree.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "common/testing/test-tree.h"

namespace talos::extension {
namespace {

using testing::HasSubstr;

constexpr kj::StringPtr kRelease = "6.12.0-test"_kj;

struct TestExtensions : testing::Test {
  ~TestExtensions() noexcept override {}
  machined::TestTree tree;

  void SetUp() override {
    tree.directory(kj::str("root/usr/lib/modules/", kRelease));
    tree.directory("root/usr/local");
    tree.file("root/usr/lib/os-release", "x");
    tree.link("root/lib", "usr/lib");
    extension("a");
    extension("b");
  }
  void extension(kj::StringPtr name, kj::StringPtr versions = "\">= v1.0.0\"") {
    tree.directory(kj::str(name, "/rootfs/usr/local/share"));
    tree.file(kj::str(name, "/rootfs/usr/local/share/", name), "x");
    tree.file(kj::str(name, "/manifest.yaml"),
              kj::str("version: v1alpha1\nmetadata:\n  name: ", name,
                      "\n  version: v1\n  compatibility: {talos: {version: ", versions, "}}\n"));
  }
  void file(kj::StringPtr path, kj::StringPtr content) {
    KJ_IF_MAYBE (end, path.findLast('/')) tree.directory(kj::heapString(path.slice(0, *end)));
    tree.file(path, content);
  }
  kj::Own<ExtensionTrees> check(std::initializer_list<kj::StringPtr> names) {
    root = tree.at("root");
    auto trees = kj::heap<ExtensionTrees>(root, "v1.2.0"_kj);
    for (auto name : names) {
      trees->add(GivenExtension{tree.at(name), kj::str("example.com/", name)});
    }
    return trees;
  }
  std::string errors(std::initializer_list<kj::StringPtr> names) {
    return kj::strArray(check(names)->errors(), "\n").cStr();
  }

 private:
  kj::String root;
};

TEST_F(TestExtensions, GoodOnesAreListedInOrder) {
  auto trees = check({"b", "a"});
  EXPECT_EQ(kj::strArray(trees->errors(), "\n"), "");
  EXPECT_FALSE(trees->hasModules());
  capnp::MallocMessageBuilder message;
  trees->fill(message.initRoot<ImageExtensions>());
  auto image = message.getRoot<ImageExtensions>().asReader();
  ASSERT_EQ(image.getLayers().size(), 2u);
  EXPECT_EQ(image.getLayers()[0].getImage(), "example.com/b");
  EXPECT_EQ(image.getLayers()[1].getMetadata().getName(), "a");
}

// Catches: an extension that replaces a program of the system, or is built for another one.
TEST_F(TestExtensions, WhatAnExtensionMayNotHaveIsRefused) {
  struct Row {
    kj::StringPtr path, error;
  };
  const Row kRows[] = {
      {"a/README"_kj, "example.com/a: unexpected file README"_kj},
      {"a/rootfs/usr/bin/machined"_kj,
       "/usr/bin/machined: an extension may have files only below"_kj},
      {"a/rootfs/lib/firmware/x"_kj, "/lib is not a folder in the root"_kj},
      {"a/rootfs/usr/localx"_kj, "/usr/localx: an extension may have files only below"_kj},
      {"a/rootfs/usr/lib/firmware/intel-ucode/06-01-01"_kj, "use FIRMWARE=intel-microcode"_kj},
      {"a/rootfs/etc/cri/conf.d/10-a.part"_kj, "use a CRICustomizationConfig document"_kj},
      {"a/rootfs/usr/lib/modules/5.0.0/a.ko"_kj,
       "is a module for the kernel 5.0.0, but that of the image is 6.12.0-test"_kj},
  };
  for (auto& row : kRows) {
    file(row.path, "x");
    EXPECT_THAT(errors({"a"}), HasSubstr(row.error.cStr())) << row.path.cStr();
    ASSERT_EQ(unlink(tree.at(row.path).cStr()), 0);
    if (row.path.startsWith("a/rootfs/lib")) {
      ASSERT_EQ(rmdir(tree.at("a/rootfs/lib/firmware").cStr()), 0);
      ASSERT_EQ(rmdir(tree.at("a/rootfs/lib").cStr()), 0);
    }
  }
  EXPECT_EQ(errors({"a"}), "");
}

TEST_F(TestExtensions, FilesOfTheRootAndOfOtherExtensionsStay) {
  file("root/usr/local/share/a", "x");
  EXPECT_THAT(errors({"a"}), HasSubstr("/usr/local/share/a exists in the root"));
  file("b/rootfs/usr/local/share/both", "x");
  extension("c");
  file("c/rootfs/usr/local/share/both", "x");
  EXPECT_EQ(errors({"b", "c"}), "example.com/c: /usr/local/share/both is in example.com/b, too");
  ASSERT_EQ(mkfifo(tree.at("b/rootfs/usr/local/pipe").cStr(), 0600), 0);
  EXPECT_EQ(errors({"b"}),
            "example.com/b: /usr/local/pipe is neither a folder nor a file nor a link");
}

TEST_F(TestExtensions, AnIncompatibleOneIsRefused) {
  extension("a", "\">= v1.3.0\"");
  EXPECT_THAT(errors({"a"}), HasSubstr("example.com/a: version constraint >= v1.3.0 can't be "
                                       "satisfied with Talos version v1.2.0"));
  EXPECT_THAT(errors({"b", "b"}), HasSubstr("the extension b is given twice"));
  tree.file("a/manifest.yaml", "version: v1alpha1\n");
  EXPECT_THAT(errors({"a"}), HasSubstr("example.com/a:manifest.yaml:"));
  ASSERT_EQ(unlink(tree.at("a/manifest.yaml").cStr()), 0);
  EXPECT_THAT(errors({"a"}), HasSubstr("not a system extension: it has no manifest.yaml"));
}

TEST_F(TestExtensions, ModulesForTheKernelNeedAnIndex) {
  file(kj::str("a/rootfs/usr/lib/modules/", kRelease, "/extra/a.ko"), "x");
  auto trees = check({"a"});
  EXPECT_EQ(kj::strArray(trees->errors(), "\n"), "");
  EXPECT_TRUE(trees->hasModules());
}

TEST_F(TestExtensions, RulesOfUdevGetAWarning) {
  file("a/rootfs/usr/lib/udev/rules.d/60-a.rules", "x");
  auto trees = check({"a"});
  EXPECT_EQ(kj::strArray(trees->errors(), "\n"), "");
  EXPECT_THAT(std::string(kj::strArray(trees->warnings(), "\n").cStr()),
              HasSubstr("60-a.rules has no effect: this system has no udev"));
}

// Catches: a mistake in a service file that only the node finds, when the image runs.
TEST_F(TestExtensions, ServiceFilesAreChecked) {
  constexpr kj::StringPtr kService = "name: s\ncontainer: {entrypoint: s}\nrestart: always\n"_kj;
  file("a/rootfs/usr/local/etc/containers/s.yaml", kService);
  EXPECT_THAT(errors({"a"}), HasSubstr("the root of its container is missing: "
                                       "/usr/local/lib/containers/s"));
  file("a/rootfs/usr/local/lib/containers/s/s", "x");
  auto trees = check({"a"});
  EXPECT_EQ(kj::strArray(trees->errors(), "\n"), "");
  capnp::MallocMessageBuilder message;
  trees->fill(message.initRoot<ImageExtensions>());
  auto image = message.getRoot<ImageExtensions>().asReader();
  ASSERT_EQ(image.getServices().size(), 1u);
  EXPECT_EQ(image.getServices()[0].getRestart(), Restart::ALWAYS);
  file("b/rootfs/usr/local/etc/containers/t.yaml", kService);
  file("b/rootfs/usr/local/lib/containers/s/other", "x");
  EXPECT_THAT(errors({"a", "b"}), HasSubstr("the service s is in example.com/a, too"));
  file("a/rootfs/usr/local/etc/containers/s.yaml", "name: s\nrestart: maybe\n");
  EXPECT_THAT(errors({"a"}),
              HasSubstr("example.com/a:/usr/local/etc/containers/s.yaml:2:10: restart"));
}

}  // namespace
}  // namespace talos::extension
