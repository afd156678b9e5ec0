#include "rootfs/schematic/schematic.h"

#include <gmock/gmock.h>

#include <string>

namespace talos::extension {
namespace {

using testing::HasSubstr;

struct Planned {
  Problems problems;
  ImagePlan plan;
  explicit Planned(kj::StringPtr text) {
    auto known = kj::heapArray<kj::String>(2);
    known[0] = kj::str("iscsi-tools");
    known[1] = kj::str("qemu-guest-agent");
    plan = planOf(text, "s.yaml", known, problems);
  }
};

TEST(Schematic, SaysWhatAnImageIsMadeOf) {
  Planned made(
      "customization:\n"
      "    extraKernelArgs:\n"
      "        - net.ifnames=1\n"
      "        - console=ttyS1,115200\n"
      "    systemExtensions:\n"
      "        officialExtensions:\n"
      "            - siderolabs/iscsi-tools\n"
      "            - qemu-guest-agent\n");
  EXPECT_EQ(render(made.problems), "");
  EXPECT_EQ(kj::strArray(made.plan.arguments, " "), "net.ifnames=1 console=ttyS1,115200");
  EXPECT_EQ(kj::strArray(made.plan.extensions, " "), "iscsi-tools qemu-guest-agent");
  Planned empty("customization: {}\n");
  EXPECT_EQ(render(empty.problems), "");
  EXPECT_EQ(empty.plan.extensions.size(), 0u);
}

// Catches: an image without a part that its schematic names.
TEST(Schematic, WhatDoesNotActIsRefusedWithItsPlace) {
  struct Row {
    kj::StringPtr text, problem;
  };
  const Row kRows[] = {
      {"customisation: {}\n", "s.yaml:1:1: customisation"},
      {"customization:\n  extraKernelArguments: [a]\n", "s.yaml:2:3: customization.extraKernelArg"},
      {"overlay: {name: rpi_generic, image: siderolabs/sbc-raspberrypi}\n",
       "s.yaml:1:1: overlay: images for single boards are not made"},
      {"customization:\n  meta: [{key: 0xa, value: x}]\n",
       "s.yaml:2:3: customization.meta: the values of META are not a part of images; remove it, "
       "and "
       "write them with talosctl meta write"},
      {"customization:\n  secureboot: {includeWellKnownCertificates: true}\n",
       "customization.secureboot"},
      {"customization:\n  bootloader: sd-boot\n", "images have GRUB as their boot loader"},
      {"customization:\n  embeddedMachineConfiguration: |\n    machine: {}\n",
       "images have no machine config"},
      {"customization:\n  extraKernelArgs: [\"a b\"]\n",
       "\"a b\" is not one argument of the kernel"},
      {"customization:\n  extraKernelArgs: [-console]\n", "cannot be removed"},
      {"customization: {systemExtensions: {officialExtensions: [siderolabs/zfs]}}\n",
       "\"siderolabs/zfs\" cannot be made here; use one of iscsi-tools, qemu-guest-agent"},
      {"customization: {systemExtensions: {officialExtensions: [iscsi-tools, "
       "siderolabs/iscsi-tools]}}\n",
       "\"siderolabs/iscsi-tools\" is named twice"},
  };
  for (auto& row : kRows) {
    Planned made(row.text);
    EXPECT_TRUE(hasErrors(made.problems)) << row.text.cStr();
    EXPECT_THAT(std::string(render(made.problems).cStr()), HasSubstr(row.problem.cStr()));
  }
  EXPECT_EQ(render(Planned("customization: {bootloader: grub}\n").problems), "");
}

}  // namespace
}  // namespace talos::extension
