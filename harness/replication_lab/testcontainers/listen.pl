# Serves each connection by images/vm/guest/far-end, which answers on standard input and output.
use IO::Socket::INET; use Socket qw(IPPROTO_TCP TCP_NODELAY);
my ($port, $answers) = @ARGV;
my $door = IO::Socket::INET->new(LocalPort => $port, Listen => 64, ReuseAddr => 1) or die "port $port: $!\n";
$SIG{CHLD} = "IGNORE"; $SIG{TERM} = sub { exit };
for (;;) {
    my $client = $door->accept or next;
    next if fork;
    setsockopt($client, IPPROTO_TCP, TCP_NODELAY, 1);
    open STDIN, "<&", $client; open STDOUT, ">&", $client;
    exec "bash", "-c", $answers;
}
