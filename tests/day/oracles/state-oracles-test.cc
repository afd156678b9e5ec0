#include "tests/day/oracles/state-oracles.h"

#include <gmock/gmock.h>

#include "tests/day/oracles/growth-oracle.h"
#include "tests/day/oracles/secret-oracle.h"

namespace talos::day {
namespace {

using testing::HasSubstr;
using testing::Not;

// Catches: two holders of the address that no counter shows, and an announcement by a host that has
// not got it.
TEST(AddressOracle, FindsTwoHolders) {
  struct Row {
    AddressLooks looks;
    const char* problem;
  } rows[] = {
      {{.asked = 500}, ""},
      {{.asked = 500, .claims = {{"master-1", true}}}, ""},
      {{.asked = 500, .twice = 1},
       "1 of 500 questions for the shared address were answered by two"},
      {{.asked = 500, .overlaps = 3, .firstOverlap = "hosts 0 and 2"}, "hosts 0 and 2"},
      {{.asked = 500, .claims = {{"master-1", true}, {"master-2", false}}},
       "master-2 announced the shared address and had not got it"},
      {{.asked = 500, .claims = {{"", false}}}, "a host that is no node"},
  };
  for (auto& row : rows) {
    if (*row.problem == '\0') EXPECT_EQ(addressProblem(row.looks), "");
    EXPECT_THAT(addressProblem(row.looks), HasSubstr(row.problem));
  }
}

// Catches: a problem that stays after the recovery, and one of a cluster without Kubernetes that
// fails every day.
TEST(Remaining, FindsWhatIsNotUsual) {
  Remaining remaining;
  remaining.setUsual({"10.5.0.2: the kubelet does not run since 17 s"});
  EXPECT_EQ(remaining.problem({"10.5.0.2: the kubelet does not run since 2041 s"}), "");
  EXPECT_EQ(remaining.problem({}), "");
  EXPECT_EQ(remaining.problem({"10.5.0.3: the kubelet does not run since 17 s", "no quorum"}),
            "10.5.0.3: the kubelet does not run since 17 s; no quorum");
}

// Catches: a long day that visits no rare state and passes.
TEST(VisitedStates, ALongDayVisitsAll) {
  VisitedStates states({"cut off", "token spent"});
  EXPECT_EQ(states.problem(60), "the day has never visited: cut off, token spent");
  states.visit("cut off");
  EXPECT_EQ(states.problem(60), "the day has never visited: token spent");
  EXPECT_EQ(states.problem(10), "");
  states.visit("token spent");
  EXPECT_EQ(states.problem(60), "");
  EXPECT_EQ(states.text(), "cut off 1, token spent 1");
  EXPECT_ANY_THROW(states.visit("no such state"));
}

Sample sample(double at, unsigned descriptors, unsigned memory, int pid = 7) {
  return {.node = "master-1",
          .program = "apid",
          .pid = pid,
          .at = at,
          .descriptors = descriptors,
          .memory = memory};
}

// Catches: a program that leaks descriptors or memory; a peak, a start or a restart that counts as
// a leak.
TEST(GrowthOracle, FindsALeak) {
  GrowthOracle oracle({.interval = 3600, .descriptors = 16, .memory = 8192});
  struct Row {
    const char* name;
    std::vector<Sample> samples;
    const char* problem;
  } rows[] = {
      {"steady", {sample(10, 20, 9000), sample(3700, 21, 9100), sample(7300, 20, 9050)}, ""},
      {"fills its caches",
       {sample(10, 5, 900), sample(3700, 90, 30000), sample(7300, 90, 30000)},
       ""},
      {"a peak of work",
       {sample(10, 20, 9000), sample(3700, 20, 9000), sample(7300, 200, 90000),
        sample(7400, 20, 9000)},
       ""},
      {"restarted", {sample(10, 20, 9000), sample(3700, 20, 9000), sample(7300, 90, 90000, 8)}, ""},
      {"leaks descriptors",
       {sample(10, 20, 9000), sample(3700, 40, 9000), sample(7300, 60, 9000)},
       "apid of master-1 (pid 7) had 40 descriptors and has 60 after 2 intervals"},
      {"leaks memory",
       {sample(10, 20, 9000), sample(3700, 20, 20000), sample(7300, 20, 40000)},
       "had 20000 KiB of memory and has 40000"},
  };
  for (auto& row : rows) {
    SCOPED_TRACE(row.name);
    auto judged = oracle;
    for (auto& each : row.samples) judged.add(each);
    if (*row.problem == '\0') EXPECT_EQ(judged.problem(), "");
    EXPECT_THAT(judged.problem(), HasSubstr(row.problem));
  }
}

constexpr const char* kConfig = R"(version: v1alpha1
machine:
  type: controlplane
  token: join-abcdef.0123456789abcdef
  ca:
    crt: Y2VydGlmaWNhdGUgdGhhdCBpcyBubyBzZWNyZXQ=
    key: "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1DNENBUUF3QlFZREsyVndCQ0lFSUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBCi0tLS0tRU5EIFBSSVZBVEUgS0VZLS0tLS0K"
cluster:
  secret: c2VjcmV0IG9mIHRoZSBjbHVzdGVy
  aescbcEncryptionSecret: 'a2V5IG9mIHRoZSBzZWNyZXRz'
  key: short
)";

// Catches: a secret in a log, as it is in the config or decoded; a report that prints the secret.
TEST(SecretOracle, FindsASecretInALog) {
  SecretOracle oracle;
  oracle.add(secretsOf(kConfig, "master-1.yaml"));
  EXPECT_EQ(oracle.known(), 5u);  // the key twice
  struct Row {
    const char *log, *problem;
  } rows[] = {
      {"nothing of it\nY2VydGlmaWNhdGUgdGhhdCBpcyBubyBzZWNyZXQ=\nshort\n", ""},
      {"a line\njoining with join-abcdef.0123456789abcdef\n",
       "master-1.yaml: machine.token is in apid, line 2"},
      {"config: a2V5IG9mIHRoZSBzZWNyZXRz", "cluster.aescbcEncryptionSecret is in apid, line 1"},
      {"key LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1DNENBUUF3QlFZREsyVndCQ0lFSUFBQUFBQUFBQUFBQUFBQU"
       "FBQUFBQUFBQUFBCi0tLS0tRU5EIFBSSVZBVEUgS0VZLS0tLS0K",
       "machine.ca.key is in apid"},
      {"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAAAAAAAAAAAAAAAAAAAAAAAAAA\n",
       "machine.ca.key as PEM is in apid, line 2"},
  };
  for (auto& row : rows) {
    auto problem = oracle.problem(row.log, "apid");
    if (*row.problem == '\0') EXPECT_EQ(problem, "");
    EXPECT_THAT(problem, HasSubstr(row.problem));
    EXPECT_THAT(problem, Not(HasSubstr("0123456789abcdef")));
  }
}

}  // namespace
}  // namespace talos::day
