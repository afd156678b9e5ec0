#include "common/extension/extension-files.h"

#include <gmock/gmock.h>

#include <string>

namespace talos::extension {
namespace {

using testing::HasSubstr;

constexpr kj::StringPtr kGood =
    "version: v1alpha1\n"
    "metadata:\n"
    "  name: iscsi-tools\n"
    "  version: v0.2.0\n"
    "  author: A Person\n"
    "  description: |\n"
    "    Two\n"
    "    lines.\n"
    "  compatibility:\n"
    "    talos:\n"
    "      version: \">= v1.0.0 < v2.0.0\"\n"_kj;

TEST(ExtensionFiles, ReadsAManifest) {
  auto file = readManifest(kGood, "manifest.yaml");
  EXPECT_EQ(render(file->problems), "");
  auto metadata = file->get().getMetadata();
  EXPECT_EQ(metadata.getName(), "iscsi-tools");
  EXPECT_EQ(metadata.getVersion(), "v0.2.0");
  EXPECT_EQ(metadata.getDescription(), "Two\nlines.\n");
  EXPECT_TRUE(incompatibility(file->get(), "v1.2.0") == nullptr);
  EXPECT_EQ(KJ_ASSERT_NONNULL(incompatibility(file->get(), "v2.0.0")),
            "version constraint >= v1.0.0 < v2.0.0 can't be satisfied with Talos version v2.0.0");
}

TEST(ExtensionFiles, AManifestWithoutARangeSuitsEveryVersion) {
  auto file = readManifest("version: v1alpha1\nmetadata: {name: a, version: v1}\n", "m");
  EXPECT_TRUE(file->isGood());
  EXPECT_TRUE(incompatibility(file->get(), "v9.0.0") == nullptr);
}

// Catches: a mistake that is reported without its place, or not at all.
TEST(ExtensionFiles, FindsMistakesInManifests) {
  struct Row {
    kj::StringPtr text, problem;
  };
  const Row kRows[] = {
      {"version: v1beta1\nmetadata: {name: a, version: v1}\n",
       "m:1:1: version: \"v1beta1\" is not a version of manifests; use v1alpha1"},
      {"version: v1alpha1\nmetadata: {name: A b, version: v1}\n",
       "m:2:12: metadata.name: \"A b\" is not a name of an extension; use letters"},
      {"version: v1alpha1\nmetadata: {name: a}\n", "metadata.version"},
      {"version: v1alpha1\n", "metadata"},
      {"version: v1alpha1\nmetadata: {name: a, version: v1, licence: x}\n", "licence"},
      {"version: v1alpha1\nmetadata: {name: a, version: v1, compatibility: {talos: {version: "
       "new}}}\n",
       "\"new\" is not a range of versions"},
      {"version: [\n", "m:"},
  };
  for (auto& row : kRows) {
    auto file = readManifest(row.text, "m");
    EXPECT_FALSE(file->isGood()) << row.text.cStr();
    EXPECT_THAT(std::string(render(file->problems).cStr()), HasSubstr(row.problem.cStr()));
  }
}

// The forms of mounts and dependencies that published extensions have.
TEST(ExtensionFiles, ReadsAServiceFile) {
  auto file = readService(
      "name: iscsid\n"
      "container:\n"
      "  entrypoint: ./sbin/iscsid\n"
      "  args: [-f]\n"
      "  environment: [A=b]\n"
      "  mounts:\n"
      "    - {source: /dev, destination: /dev, type: bind, options: [rshared, rbind, rw]}\n"
      "  security:\n"
      "    writeableRootfs: true\n"
      "    maskedPaths: []\n"
      "    rootfsPropagation: shared\n"
      "depends:\n"
      "  - service: cri\n"
      "  - network: [addresses, connectivity]\n"
      "  - path: /run/x\n"
      "  - time: true\n"
      "  - configuration: true\n"
      "restart: untilSuccess\n",
      "s");
  EXPECT_EQ(render(file->problems), "");
  auto service = file->get();
  EXPECT_EQ(service.getRestart(), Restart::UNTIL_SUCCESS);
  EXPECT_EQ(service.getContainer().getMounts()[0].getOptions()[0], "rshared");
  auto security = service.getContainer().getSecurity();
  // An empty list is not an absent one: the first masks nothing.
  EXPECT_TRUE(security.hasMaskedPaths());
  EXPECT_FALSE(security.hasReadonlyPaths());
  EXPECT_EQ(service.getDepends()[1].getNetwork()[1], NetworkState::CONNECTIVITY);
}

TEST(ExtensionFiles, FindsMistakesInServiceFiles) {
  struct Row {
    kj::StringPtr text, problem;
  };
  const Row kRows[] = {
      {"name: a\ncontainer: {entrypoint: x}\n", "restart"},
      {"name: a\nrestart: always\n", "container"},
      {"name: a\ncontainer: {args: [x]}\nrestart: always\n", "entrypoint"},
      {"name: A\ncontainer: {entrypoint: x}\nrestart: always\n",
       "s:1:1: name: \"A\" is not a name of a service"},
      {"name: a\ncontainer: {entrypoint: x}\nrestart: sometimes\n", "sometimes"},
      {"name: a\ncontainer: {entrypoint: ../x}\nrestart: always\n", "leaves the container"},
      {"name: a\ncontainer: {entrypoint: x, environment: [=b]}\nrestart: always\n",
       "container.environment[0]: the variable has no name; use NAME=value"},
      {"name: a\ncontainer: {entrypoint: x, mounts: [{destination: dev}]}\nrestart: always\n",
       "container.mounts[0].destination: \"dev\" is not an absolute path"},
      {"name: a\ncontainer: {entrypoint: x, security: {rootfsPropagation: some}}\nrestart: "
       "always\n",
       "\"some\" is not a propagation"},
      {"name: a\ncontainer: {entrypoint: x}\ndepends: [{}]\nrestart: always\n",
       "depends[0]: the dependency has no kind"},
      {"name: a\ncontainer: {entrypoint: x}\ndepends: [{time: true, path: /x}]\nrestart: always\n",
       "depends[0]: the dependency has more than one kind"},
      {"name: a\ncontainer: {entrypoint: x}\nlogToConsole: true\nrestart: always\n",
       "talosctl logs ext-a shows the log"},
      {"name: a\ncontainer: {entrypoint: x, privileged: true}\nrestart: always\n", "privileged"},
  };
  for (auto& row : kRows) {
    auto file = readService(row.text, "s");
    EXPECT_FALSE(file->isGood()) << row.text.cStr();
    EXPECT_THAT(std::string(render(file->problems).cStr()), HasSubstr(row.problem.cStr()));
  }
}

TEST(ExtensionFiles, ReadsTheListOfAnImage) {
  auto file = readList(
      "layers:\n"
      "  - image: registry.example.com/a:v1\n"
      "    metadata: {name: a, version: v1}\n",
      "l");
  EXPECT_EQ(render(file->problems), "");
  EXPECT_EQ(file->get().getLayers()[0].getMetadata().getName(), "a");
}

}  // namespace
}  // namespace talos::extension
