CREATE TABLE IF NOT EXISTS `names` (`name` int);
