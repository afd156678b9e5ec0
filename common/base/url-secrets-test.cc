#include "common/base/url-secrets.h"

#include <gtest/gtest.h>

#include "common/base/problem.h"

namespace talos {
namespace {

// Catches: a password that stays, half of one that has an @ or a :, and an address without one that
// is changed.
TEST(UrlSecrets, PasswordsAreHidden) {
  auto shown = [](kj::StringPtr text) { return withoutUrlPasswords(text); };
  EXPECT_EQ("\"https://u:***@h/\" is not valid", shown("\"https://u:p@h/\" is not valid"));
  EXPECT_EQ("a://u:***@h b://***@k", shown("a://u:p@:q@h b://token@k"));
  for (auto same : {"https://h:443/a@b", "mail a@b", "://", "https://@h", ""}) {
    EXPECT_EQ(same, shown(same));
  }
}

// Catches: a problem of a machine config that reveals the password of a proxy or endpoint.
TEST(UrlSecrets, AProblemQuotesNoPassword) {
  Problem problem;
  problem.file = kj::str("https://u:geheim@h/config");
  problem.message = kj::str("\"https://u:geheim@h:99999\" is not a valid URL");
  problem.hint = kj::str("use https://u:geheim@h");
  EXPECT_EQ(
      "https://u:***@h/config: \"https://u:***@h:99999\" is not a valid URL; use "
      "https://u:***@h",
      problem.toString());
}

// Catches: the token of the kernel's parameter in its own log, whichever way it is written.
TEST(UrlSecrets, TokenInAKernelArgumentIsHidden) {
  auto shown = [](kj::StringPtr text) { return withoutArgumentSecrets(text); };
  EXPECT_EQ("Kernel command line: quiet talos.config=https://***@h:1/x?*** panic=0",
            shown("Kernel command line: quiet talos.config=https://u:p@h:1/x?token=t&u=v panic=0"));
  EXPECT_EQ("talos.config=http://h/#*** talos.config=h?***",
            shown("talos.config=http://h/#geheim talos.config=h?geheim"));
  EXPECT_EQ("a \"talos.config=http://h/x?***\" b",
            shown("a \"talos.config=http://h/x?ge heim\" b"));
  EXPECT_EQ("talos.config=\"http://h/x?***\" b", shown("talos.config=\"http://h/x?ge heim\" b"));
  EXPECT_EQ("talos.config=***@h/a@b", shown("talos.config=u:p@h/a@b"));
  for (auto same : {"talos.config=metal-iso", "talos.config.ca=AB?=", "xtalos.config=a?b",
                    "talos.config=", "", "talos.config=\""}) {
    EXPECT_EQ(same, shown(same));
  }
}

// Catches: the token of an image's URL that lands in a log or a record; a digest that is lost with
// it.
TEST(UrlSecrets, TheQueryOfAnImage) {
  auto url = splitImageName("https://h/a.tar?token=1#sha256=12");
  EXPECT_EQ(url.name, "https://h/a.tar#sha256=12");
  EXPECT_EQ(url.query, "token=1");
  EXPECT_EQ(splitImageName("https://h/a.tar#b?c").query, "");
  EXPECT_EQ(splitImageName("r/i:v1").name, "r/i:v1");
}

}  // namespace
}  // namespace talos
