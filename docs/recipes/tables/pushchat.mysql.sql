CREATE TABLE active_users
(
    udid varchar(40) NOT NULL PRIMARY KEY,
    device_token varchar(64) NOT NULL,
    nickname varchar(255) NOT NULL,
    secret_code varchar(255) NOT NULL,
    ip_address varchar(32) NOT NULL
)
ENGINE=InnoDB DEFAULT CHARACTER SET utf8;
CREATE TABLE push_queue
(
    message_id integer NOT NULL AUTO_INCREMENT,
    device_token varchar(64) NOT NULL,
    payload varchar(256) NOT NULL,
    time_queued datetime NOT NULL,
    time_sent datetime,
    PRIMARY KEY (message_id)
)
ENGINE=InnoDB DEFAULT CHARACTER SET latin1;
