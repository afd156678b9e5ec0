#include "tests/day/plan/operation.h"

#include <algorithm>
#include <stdexcept>

namespace talos::day {
namespace {

// A pause or a cut is too short to be noticed, about as long as a lease, or longer.
constexpr unsigned kShortest = 500, kLongest = 20'000;

constexpr KindRow kRows[] = {
    {Kind::kReboot, "reboot", Scope::kNode, kOnAll, 0, 0, 8},
    {Kind::kPowerCut, "power-cut", Scope::kNode, kOnAll, 200, 15'000, 8, true},
    {Kind::kPause, "pause", Scope::kNode, kOnAll, kShortest, kLongest, 6, true},
    {Kind::kCutOff, "cut-off", Scope::kNode, kOnAll, kShortest, kLongest, 8, true, "cut off"},
    {Kind::kDeaf, "deaf", Scope::kNode, kOnAll, kShortest, kLongest, 8, true},
    {Kind::kMute, "mute", Scope::kNode, kOnAll, kShortest, kLongest, 8, true},
    {Kind::kCutLink, "cut-link", Scope::kNode, kOnAll, kShortest, kLongest, 6, true},
    {Kind::kSlowLink, "slow-link", Scope::kNode, kOnAll, kShortest, kLongest, 6, true},
    {Kind::kFullDisk, "full-disk", Scope::kNode, kOnAll, kShortest, kLongest, 5},
    {Kind::kKill, "kill", Scope::kProgram, kOnAll, 0, 0, 6},
    {Kind::kStop, "stop", Scope::kProgram, kOnAll, kShortest, kLongest, 6, true},
    {Kind::kPatch, "patch", Scope::kCommand, kOnAll, 0, 0, 8},
    {Kind::kTry, "try", Scope::kCommand, kOnAll, 0, 0, 25},
    {Kind::kBadConfig, "bad-config", Scope::kNode, kOnControlPlanes, 0, 0, 70, false,
     "config went back"},
    {Kind::kUpgrade, "upgrade", Scope::kNode, kOnAll, 0, 0, 25},
    {Kind::kRollback, "rollback", Scope::kNode, kOnAll, 0, 0, 10},
    {Kind::kBadImage, "bad-image", Scope::kNode, kOnControlPlanes, 0, 0, 60, false,
     "system given up"},
    {Kind::kReset, "reset", Scope::kNode, kOnControlPlanes, 0, 0, 15, false, "member promoted"},
    {Kind::kTokenJoin, "token-join", Scope::kNode, kOnWorker, 0, 0, 12, false, "token spent"},
    {Kind::kRenew, "renew", Scope::kCommand, kOnControlPlanes, 0, 0, 5},
    {Kind::kRotate, "rotate", Scope::kAlone, kOnControlPlanes, 0, 0, 10},
    {Kind::kSnapshot, "snapshot", Scope::kCommand, kOnControlPlanes, 0, 0, 5},
    {Kind::kForfeit, "forfeit", Scope::kCommand, kOnControlPlanes, 0, 0, 6},
};

constexpr const char *kOfWorkers[] = {"machined", "apid", "networkd"},
                     *kOfControlPlanes[] = {"machined",        "apid", "networkd", "trustd",
                                            "etcd-supervisor", "vipd", "etcd"};

}  // namespace

std::span<const KindRow> allKinds() {
  return kRows;
}

const KindRow& rowOf(Kind kind) {
  auto row = std::ranges::find(kRows, kind, &KindRow::kind);
  if (row == std::end(kRows)) throw std::logic_error("a kind of operation without a row");
  return *row;
}

const KindRow* rowNamed(const std::string& name) {
  auto row = std::ranges::find_if(kRows, [&](auto& each) { return name == each.name; });
  return row == std::end(kRows) ? nullptr : row;
}

std::span<const char* const> programsOn(unsigned node) {
  if (node == kWorker) return kOfWorkers;
  return kOfControlPlanes;
}

// The harness undoes a fault of a node by what the node was when it began, such as its process 1
// and its port, so another one that replaces these must not begin meanwhile.
bool agree(const Operation& a, const Operation& b) {
  auto scopeA = rowOf(a.kind).scope, scopeB = rowOf(b.kind).scope;
  if (scopeA == Scope::kAlone || scopeB == Scope::kAlone) return false;
  // Two members that leave etcd, or two systems on trial, only wait for each other.
  bool isLong = scopeA == Scope::kNode && rowOf(a.kind).most == 0 && a.kind != Kind::kReboot;
  if (a.kind == b.kind && isLong) return false;
  if (scopeA == Scope::kProgram && scopeB == Scope::kProgram && a.node == b.node) {
    return a.program != b.program;
  }
  if (scopeA != Scope::kNode || scopeB != Scope::kNode) return true;
  auto touches = [](const Operation& one, const Operation& other) {
    return one.node == other.node || one.peer == other.node;
  };
  return !touches(a, b) && !touches(b, a);
}

}  // namespace talos::day
