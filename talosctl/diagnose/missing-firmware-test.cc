#include "talosctl/diagnose/missing-firmware.h"

#include <capnp/message.h>
#include <capnp/orphan.h>
#include <gtest/gtest.h>

#include <initializer_list>

namespace talos::talosctl {
namespace {

// Returns "driver device: file, file; …".
kj::String missingIn(std::initializer_list<kj::StringPtr> lines) {
  capnp::MallocMessageBuilder message;
  auto orphan = message.getOrphanage().newOrphan<capnp::List<capnp::Text>>(lines.size());
  unsigned at = 0;
  for (auto line : lines) orphan.get().set(at++, line);
  auto missing = missingFirmware(orphan.getReader());
  auto texts = KJ_MAP(one, missing) {
    EXPECT_EQ(one.files.size(), one.lines.size());
    return kj::str(one.driver, " ", one.device, ": ", kj::strArray(one.files, ", "));
  };
  return kj::strArray(texts, "; ");
}

struct KernelLineRow {
  kj::StringPtr line, missing;
};
const KernelLineRow kKernelLineRows[] = {
    {"kern: warning: [2026-11-22T15:01:10.123Z]: r8169 0000:02:00.0: Direct firmware load for "
     "rtl_nic/rtl8168g-2.fw failed with error -2",
     "r8169 0000:02:00.0: rtl_nic/rtl8168g-2.fw"},
    {"kern: err: [2026-11-22T15:01:10.123Z]: r8169 0000:02:00.0: firmware: failed to load "
     "rtl_nic/rtl8168g-2.fw (-2)",
     "r8169 0000:02:00.0: rtl_nic/rtl8168g-2.fw"},
    {"tg3 0000:01:00.0 eth0: Direct firmware load for tigon/tg3.bin failed with error -2",
     "tg3 0000:01:00.0: tigon/tg3.bin"},
    // Other errors do not mean an absent file; other texts are not messages of the loader.
    {"tg3 0000:01:00.0: Direct firmware load for tigon/tg3.bin failed with error -12", ""},
    {"tg3 0000:01:00.0: firmware: failed to load tigon/tg3.bin (-22)", ""},
    {"tg3 0000:01:00.0: firmware: direct-loading firmware tigon/tg3.bin", ""},
    {"tg3 0000:01:00.0: Direct firmware load for  failed with error -2", ""},
    {"tg3 0000:01:00.0: Direct firmware load for failed with error -2", ""},
    {"Direct firmware load for x failed with error -2", ""},
    {": Direct firmware load for x failed with error -2", ""},
    {"[2026]: : firmware: failed to load x (-2)", ""},
    {"platform regulatory.0: Direct firmware load for regulatory.db failed with error -2", ""},
    {"user: \x01\xff firmware", ""},
    {"", ""},
};

}  // namespace

// Catches: a message of one of the two kinds of kernels that is not recognised, or a text that is
// wrongly recognised as one.
TEST(MissingFirmware, IsInTheLinesOfTheKernel) {
  for (auto& row : kKernelLineRows) {
    EXPECT_STREQ(missingIn({row.line}).cStr(), row.missing.cStr()) << row.line.cStr();
  }
}

// Catches: a cause for each file and each attempt; a file that was found at the second attempt; one
// device's file that hides another's.
TEST(MissingFirmware, OneEntryForADeviceAndAPackage) {
  auto log = {
      "bnx2 0000:03:00.0: firmware: failed to load bnx2/a.fw (-2)"_kj,
      "bnx2 0000:03:00.0: Direct firmware load for bnx2/a.fw failed with error -2"_kj,
      "bnx2 0000:03:00.0: firmware: failed to load bnx2/b.fw (-2)"_kj,
      "bnx2 0000:03:00.1: firmware: failed to load bnx2/a.fw (-2)"_kj,
      "ice 0000:05:00.0: firmware: failed to load intel/ice/ddp/ice.pkg (-2)"_kj,
      "ice 0000:05:00.0: firmware: failed to load other/file (-2)"_kj,
      "tg3 0000:06:00.0: firmware: failed to load tigon/tg3.bin (-2)"_kj,
      "tg3 0000:06:00.0: firmware: direct-loading firmware tigon/tg3.bin"_kj,
  };
  EXPECT_STREQ(missingIn(log).cStr(),
               "bnx2 0000:03:00.0: bnx2/a.fw, bnx2/b.fw; bnx2 0000:03:00.1: bnx2/a.fw; "
               "ice 0000:05:00.0: intel/ice/ddp/ice.pkg; ice 0000:05:00.0: other/file");
}

// Catches: a prefix that also matches another driver (bnx2 and bnx2x), and an invented package.
TEST(MissingFirmware, ThePackageThatHasIt) {
  struct {
    kj::StringPtr file, package;
  } rows[] = {
      {"bnx2/bnx2-mips-09-6.2.1b.fw", "firmware-bnx2"},
      {"bnx2x/bnx2x-e2-7.13.21.0.fw", "firmware-bnx2x"},
      {"tigon/tg3_tso.bin", "firmware-misc-nonfree"},
      {"qed/qed_init_values_zipped-8.59.1.0.bin", "firmware-qlogic"},
      {"ql2400_fw.bin", "firmware-qlogic"},
      {"e100/d101m_ucode.bin", "firmware-intel-misc"},
      {"intel/ice/ddp/ice.pkg", "firmware-intel-misc"},
      {"rtl_nic/rtl8125b-2.fw", "firmware-realtek"},
      {"netronome/nic_AMDA0081-0001_4x10.nffw", "firmware-netronome"},
      {"liquidio/lio_23xx_nic.bin", "firmware-cavium"},
      {"intel/other", ""},
      {"bnx2", ""},
      {"x/bnx2/a", ""},
      {"", ""},
  };
  for (auto& row : rows) {
    EXPECT_STREQ(firmwarePackage(row.file).cStr(), row.package.cStr()) << row.file.cStr();
  }
}

}  // namespace talos::talosctl
