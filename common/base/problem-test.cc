#include "common/base/problem.h"

#include <gtest/gtest.h>

#include "common/testing/printing.h"

namespace talos {
namespace {

Problem problem(unsigned line, kj::StringPtr message) {
  Problem p;
  p.line = line;
  p.column = 3;
  p.message = kj::str(message);
  return p;
}

// Catches: a place that editors cannot jump to, a hint that is glued to the message.
TEST(Problem, IsOneLineWithPlacePathAndHint) {
  Problem p = problem(31, "\"masterr\" is not a valid machine type");
  p.column = 14;
  p.file = kj::str("controlplane.yaml");
  p.path = kj::str("machine.type");
  p.hint = kj::str("did you mean \"master\"?");
  EXPECT_EQ(kj::str("controlplane.yaml:31:14: machine.type: \"masterr\" is not a valid machine "
                    "type; did you mean "
                    "\"master\"?"),
            p.toString());
}

// Catches: "0:0" or a lone colon for a problem without a place or a file.
TEST(Problem, LeavesOutWhatItDoesNotHave) {
  Problem p;
  p.message = kj::str("empty");
  EXPECT_EQ(kj::str("empty"), p.toString());
  p.severity = Problem::Severity::kWarning;
  p.file = kj::str("a.yaml");
  EXPECT_EQ(kj::str("a.yaml: warning: empty"), p.toString());
  p.file = kj::str();
  p.line = 2, p.column = 5;
  EXPECT_EQ(kj::str("line 2, column 5: warning: empty"), p.toString());
}

// Catches: warnings that make a document invalid.
TEST(Problem, OnlyErrorsAreErrors) {
  Problems problems;
  problems.add(problem(1, "a")).severity = Problem::Severity::kWarning;
  EXPECT_FALSE(hasErrors(problems));
  problems.add(problem(1, "b"));
  EXPECT_TRUE(hasErrors(problems));
}

// Catches: problems in the order in which checks ran instead of the order of the file.
TEST(Problem, RendersInOrderOfPlaces) {
  Problems problems;
  problems.add(problem(7, "later"));
  problems.add(problem(2, "first"));
  problems.add(problem(2, "second"));
  EXPECT_EQ(kj::str("line 2, column 3: first\nline 2, column 3: second\nline 7, column 3: later\n"),
            render(problems));
}

// Catches: suggestions that are far-fetched, swapped letters counted twice, case counted as a
// change.
TEST(Closest, SuggestsWhatWasMeant) {
  const kj::StringPtr keys[] = {"hostname"_kj, "nameservers"_kj, "interfaces"_kj, "cidr"_kj};
  auto suggest = [&](kj::StringPtr text) { return kj::str(closest(text, keys).orDefault("-")); };
  EXPECT_EQ(kj::str("hostname"), suggest("hostnmae"));
  EXPECT_EQ(kj::str("hostname"), suggest("hostName"));
  EXPECT_EQ(kj::str("nameservers"), suggest("nameserver"));
  EXPECT_EQ(kj::str("cidr"), suggest("cdir"));
  EXPECT_EQ(kj::str("-"), suggest("kubelet"));
  EXPECT_EQ(kj::str("-"), suggest(""));
  EXPECT_EQ(kj::str("-"), suggest("x"));
}

}  // namespace
}  // namespace talos
