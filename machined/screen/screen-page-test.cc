// The machine's own screen in three states, as docs/screens has them; UPDATE_DOCS=1 writes these.
#include "machined/screen/screen-page.h"

#include <gmock/gmock.h>

#include <fstream>
#include <set>
#include <string>

#include "common/text/plain-text.h"
#include "machined/screen/qr-code.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr kj::StringPtr kFingerprint = "Fd0p7kdNSpIbdVj0MbcNiLZ2FnqmJpbNFLb3bJzTxEk="_kj;

ScreenLink link(kj::StringPtr name, kj::StringPtr state, kj::StringPtr hardware,
                std::initializer_list<kj::StringPtr> addresses) {
  ScreenLink link{kj::str(name), kj::str(state), kj::str(hardware), {}};
  for (auto address : addresses) link.addresses.add(kj::str(address));
  return link;
}

ScreenFacts runningNode() {
  ScreenFacts facts;
  facts.hostname = kj::str("master-1");
  facts.version = kj::str("v0.100.0");
  facts.stage = kj::str("running");
  facts.role = kj::str("control plane");
  facts.addresses.add(kj::str("10.5.0.2"));
  facts.addresses.add(kj::str("fd00::2"));
  facts.etcd = kj::str("member; the leader is master-1; 1 of 3 may fail");
  facts.kubernetes = kj::str("Ready");
  facts.shared = kj::str("10.5.0.50 is here");
  facts.services = facts.servicesUp = 12;
  facts.links.add(link("eth0", "up", "52:54:00:12:34:56 virtio_net 0000:00:01.0",
                       {"10.5.0.2/24", "fd00::2/64", "10.5.0.50/32"}));
  facts.links.add(link("eth1", "no carrier", "52:54:00:12:34:57 e1000e 0000:00:02.0", {}));
  facts.gateways.add(kj::str("10.5.0.1 on eth0"));
  facts.nameServers.add(kj::str("10.5.0.1"));
  facts.timeServers.add(kj::str("time.cloudflare.com"));
  facts.fingerprint = kj::str(kFingerprint);
  return facts;
}

ScreenFacts waitingNode() {
  ScreenFacts facts;
  facts.hostname = kj::str("talos-192-0-2-7");
  facts.version = kj::str("v0.100.0");
  facts.stage = kj::str("maintenance");
  facts.addresses.add(kj::str("192.0.2.7"));
  facts.fingerprint = kj::str(kFingerprint);
  facts.problems.add(kj::str("no machine config: no volume has one"));
  return facts;
}

ScreenFacts illNode() {
  auto facts = runningNode();
  facts.servicesUp = 11;
  facts.problems.add(
      kj::str("cannot pull \"ghcr.io/siderolabs/kubelet:v1.34.4\": failed to do "
              "request: dial tcp: lookup ghcr.io on 10.5.0.1:53: no such host"));
  facts.problems.add(kj::str("service kubelet is not healthy"));
  facts.progress = kj::str("upgrade: writing of B v0.101.0, 62 of 92 MB");
  return facts;
}

ScreenFacts sickNetwork() {
  auto facts = runningNode();
  facts.gateways.clear();
  facts.networkProblems.add(kj::str("route 0.0.0.0/0 via 10.9.0.1: Network is unreachable"));
  return facts;
}

kj::String repeated(kj::StringPtr text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text.cStr();
  return kj::heapString(all.c_str());
}

void expectMachineScreen(const std::string& name, const Canvas& canvas) {
  for (auto form : {".txt", ".svg"}) {
    auto path = TALOS_SOURCE_DIR "/docs/screens/" + name + form;
    auto text = form == std::string(".txt") ? canvas.text() : canvas.svg(name.c_str());
    if (getenv("UPDATE_DOCS") != nullptr) std::ofstream(path) << text.cStr();
    std::ifstream file(path);
    std::string written((std::istreambuf_iterator<char>(file)), {});
    EXPECT_TRUE(text.cStr() == written) << path << " is not up to date:\n" << text.cStr();
  }
}

TEST(MachineScreen, IsTheOneOfTheDocuments) {
  expectMachineScreen("machine-running", drawMachineScreen(runningNode(), 25, 80));
  expectMachineScreen("machine-maintenance", drawMachineScreen(waitingNode(), 25, 80));
  expectMachineScreen("machine-problem", drawMachineScreen(illNode(), 25, 80));
  expectMachineScreen("machine-network", drawNetworkScreen(sickNetwork(), 25, 80));
  expectMachineScreen("machine-problems", drawProblemsScreen(illNode(), 25, 80));
}

// Catches: a character for which the kernel's built-in font shows a replacement.
TEST(MachineScreen, HasOnlyCharactersOfTheKernelsFont) {
  auto facts = illNode();
  for (int i = 0; i < 200; ++i) facts.hostname = kj::str(facts.hostname, "x");
  auto foreign = illNode();  // texts of a resolver, a registry or a provider
  foreign.hostname = kj::str("müller");
  foreign.problems[0] = kj::str("“größer” → 世界 … ", foreign.problems[0]);
  auto waiting = waitingNode();
  const std::set<uint32_t> known = {U'█', U'▀', U'▄'};
  for (auto& one : {&facts, &foreign, &waiting}) {
    auto text = drawMachineScreen(*one, 25, 80).text();
    for (auto rest = text.asBytes(); rest.size() > 0;) {
      auto character = firstCharacter(rest);
      EXPECT_TRUE(character.code < 0x7f || known.contains(character.code)) << character.code;
      rest = rest.slice(character.bytes, rest.size());
    }
  }
}

TEST(MachineScreen, InMaintenanceModeTheCommandIsWhole) {
  auto text = drawMachineScreen(waitingNode(), 25, 80).text();
  EXPECT_THAT(text.cStr(), HasSubstr("talosctl apply-config --insecure --nodes 192.0.2.7"));
  EXPECT_THAT(text.cStr(), HasSubstr("--file controlplane.yaml"));
  EXPECT_THAT(text.cStr(), HasSubstr(kFingerprint.cStr()));
  EXPECT_THAT(text.cStr(), HasSubstr("▄"));
  EXPECT_THAT(text.cStr(), HasSubstr("reason       no machine config"));
  EXPECT_THAT(text.cStr(), Not(HasSubstr("remedy")));
  auto facts = waitingNode();
  facts.addresses.clear();
  auto alone = drawMachineScreen(facts, 25, 80).text();
  EXPECT_THAT(alone.cStr(), HasSubstr("a kernel parameter ip= sets one"));
  EXPECT_THAT(alone.cStr(), Not(HasSubstr("apply-config")));
}

// Catches: a long text that pushes the next step off the screen.
TEST(MachineScreen, ALongTextIsCutBeforeTheNextStep) {
  kj::String longText = repeated("refused by a proxy; ", 200);
  for (size_t rows : {20, 25, 48}) {
    auto waiting = waitingNode();
    waiting.problems[0] = kj::str("no machine config: ", longText);
    auto text = drawMachineScreen(waiting, rows, 80).text();
    EXPECT_THAT(text.cStr(), HasSubstr("no machine config")) << rows;
    EXPECT_THAT(text.cStr(), HasSubstr("fingerprint ")) << rows;
    EXPECT_THAT(text.cStr(), HasSubstr("--file controlplane.yaml")) << rows;
    EXPECT_THAT(text.cStr(), HasSubstr("~")) << rows;
    auto ill = illNode();
    ill.problems[0] = kj::str("cannot pull: ", longText);
    for (int i = 0; i < 60; ++i) ill.addresses.add(kj::str("fd00::", i));
    auto shown = drawMachineScreen(ill, rows, 80).text();
    EXPECT_THAT(shown.cStr(), HasSubstr("cannot pull")) << rows;
    EXPECT_THAT(shown.cStr(), HasSubstr("talosctl diagnose names the registry")) << rows;
    EXPECT_THAT(shown.cStr(), HasSubstr("talosctl -n 10.5.0.2 dashboard")) << rows;
    EXPECT_THAT(shown.cStr(), HasSubstr("Alt+F1")) << rows;
  }
}

TEST(MachineScreen, TheFirstProblemHasARemedy) {
  auto text = drawMachineScreen(illNode(), 25, 80).text();
  EXPECT_THAT(text.cStr(), HasSubstr("cannot pull"));
  EXPECT_THAT(text.cStr(), HasSubstr("talosctl diagnose names the registry"));
  EXPECT_THAT(text.cStr(), HasSubstr("and 1 more: talosctl status"));
  EXPECT_EQ(remedyOf("something else"), "talosctl diagnose"_kj);
}

// Catches: links or problems that are drawn over the keys, or are missing without a word.
TEST(MachineScreen, ALongListEndsWithTheNumberOfTheRest) {
  auto facts = sickNetwork();
  auto problem = kj::str("cannot pull: ", repeated("refused by a proxy; ", 20));
  for (int i = 0; i < 40; ++i) {
    facts.links.add(link(kj::str("eth", i), "up", "", {"10.9.0.1/24"}));
    facts.problems.add(kj::str(i, problem));
  }
  for (size_t rows : {20, 25, 48}) {
    auto links = drawNetworkScreen(facts, rows, 80).text();
    EXPECT_THAT(links.cStr(), HasSubstr("more: talosctl get links")) << rows;
    EXPECT_THAT(links.cStr(), HasSubstr("Network is unreachable")) << rows;
    auto problems = drawProblemsScreen(facts, rows, 80).text();
    EXPECT_THAT(problems.cStr(), HasSubstr("more: talosctl status")) << rows;
    for (auto& text : {&links, &problems}) {
      EXPECT_THAT(text->cStr(), HasSubstr("Alt+F1 log of the machine   Alt+F2")) << rows;
    }
  }
}

TEST(MachineScreen, IsDrawnInEverySize) {
  for (size_t rows : {1, 20, 25, 48, 200}) {
    for (size_t columns : {1, 15, 60, 80, 100, 240}) {
      for (auto& facts : {runningNode(), waitingNode(), illNode(), ScreenFacts()}) {
        for (auto draw : {drawNetworkScreen, drawProblemsScreen}) {
          auto page = draw(facts, rows, columns);
          EXPECT_GE(page.rows(), kLeastScreenRows);
          if (rows >= 25) EXPECT_LE(page.rows() + 5, rows);
        }
        auto canvas = drawMachineScreen(facts, rows, columns);
        EXPECT_GE(canvas.rows(), kLeastScreenRows);
        // Room for the last words of a kernel, "---[ end Kernel panic - not syncing: … ]---".
        if (rows >= 25) EXPECT_LE(canvas.rows() + (facts.stage == "maintenance" ? 2 : 5), rows);
        EXPECT_EQ(canvas.columns(), kj::max(columns, kLeastScreenColumns));
      }
    }
  }
}

// Catches: a line for each change of a text that counts something, which would fill the log.
TEST(MachineScreen, ALineIsForANewStateOnly) {
  auto facts = runningNode();
  EXPECT_EQ(summaryLine(facts),
            "master-1 (10.5.0.2 fd00::2) is running: 12 services are healthy; shared address "
            "10.5.0.50 is here"_kj);
  auto before = stateKey(facts);
  facts.problems.add(kj::str("attempt 1"));
  auto ill = stateKey(facts);
  EXPECT_NE(before, ill);
  facts.problems[0] = kj::str("attempt 2");
  EXPECT_EQ(stateKey(facts), ill);
  facts.shared = kj::str("10.5.0.50 is on master-2");
  EXPECT_NE(stateKey(facts), ill);
  EXPECT_EQ(summaryLine(waitingNode()), ""_kj);
}

// Catches: a code whose blocks are dark modules, or whose quiet zone or finder pattern is wrong.
TEST(QrCodes, AreDrawnAsTheyAre) {
  auto code = KJ_ASSERT_NONNULL(qrCodeOf(kj::str("192.0.2.7 ", kFingerprint)));
  Canvas canvas(code.rows(), code.size);
  drawQrCode(canvas, 0, 0, code);
  auto text = canvas.text();
  std::string all = text.cStr();
  // The first two rows of modules are quiet zone, so both halves of the first line are light.
  std::string quiet;
  for (size_t i = 0; i < code.size; ++i) quiet += "█";
  EXPECT_EQ(all.substr(0, quiet.size()), quiet);
  // The finder pattern follows two light modules: 7 dark modules, then a light one.
  auto light = [&](size_t row, size_t column) { return code.modules[row * code.size + column]; };
  for (size_t i = 2; i < 9; ++i) {
    EXPECT_FALSE(light(2, i));
    EXPECT_FALSE(light(i, 2));
    EXPECT_FALSE(light(2, code.size - 1 - i));
    EXPECT_FALSE(light(code.size - 1 - i, 2));
  }
  EXPECT_TRUE(light(2, 9));
  EXPECT_TRUE(light(3, 3));
  EXPECT_FALSE(light(5, 5));
}

TEST(QrCodes, ATextThatIsTooLongHasNone) {
  EXPECT_TRUE(qrCodeOf("") != nullptr);
  std::string longText(5000, 'x');
  EXPECT_TRUE(qrCodeOf(longText.c_str()) == nullptr);
}

}  // namespace
}  // namespace talos::machined
